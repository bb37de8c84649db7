// Runs one seed to its end, through crashes and resumes, and says what did not hold.
import { auditAccount } from "@cohort/ledger"
import { createCursor } from "@cohort/data"
import { seedOf } from "@cohort/rollout"
import { createVirtualClock } from "@cohort/rollout/testing"
import type { Bug } from "./bug.ts"
import { Disk } from "./disk.ts"
import { isHonest, live } from "./life.ts"
import { Oracle, type Sums } from "./oracle.ts"
import { type Scenario, scenarioOf } from "./scenario.ts"
import { createWorkload, isSlowRow } from "./workload.ts"

export interface Verdict {
  readonly seed: number
  readonly policy: Scenario["policy"] | "oversampled"
  /** Every completion fits a batch. */
  readonly roomy: boolean
  /** Every rollout is one request. */
  readonly singleTurn: boolean
  /** Roomy, and no fault, and no request cut by a weight sync. */
  readonly undisturbed: boolean
  readonly problems: readonly string[]
  readonly lives: number
  readonly crashes: number
  readonly failures: readonly string[]
  readonly steps: number
  readonly finished: boolean
  readonly virtualMs: number
  readonly sums: Sums
}

/** Lives after which a run that fails again and again is left alone; nothing in it may be wrong all the same. */
const maxLives = 20

/** @example (await simulate(7)).problems // [] */
export async function simulate(seed: number, bug?: Bug): Promise<Verdict> {
  const scenario = scenarioOf(seed)
  const rows = createCursor(createWorkload(scenario, createVirtualClock(), 0).source, { seed: seedOf(seed, 7), shuffle: seed % 2 === 0 })
  const rowIndex = (occurrence: number): number => rows.at(occurrence).index
  const oracle = new Oracle(scenario, { rowIndex, isSlow: (occurrence) => isSlowRow(scenario, rowIndex(occurrence)) })
  const disk = new Disk()
  const failures: string[] = []
  let crashes = 0
  let atMs = 0
  let lives = 0
  let finished = false
  while (!finished && lives < maxLives && oracle.problems.length === 0) {
    if (disk.checkpoint === undefined) disk.clear()
    const end = await live({ scenario, disk, oracle, ending: scenario.endings[lives] ?? { kind: "none" }, life: lives, startMs: atMs, bug })
    lives++
    atMs = end.atMs + 1
    if (end.how.kind === "crashed") crashes++
    else if (end.how.kind === "stopped") finished = end.how.reason === "steps" || end.how.reason === "data"
    else {
      failures.push(String(end.how.error))
      if (!isHonest(end.how.error)) oracle.problem(`ended with ${String(end.how.error)}`)
      if (scenario.calm && scenario.pauseMode !== "abort") oracle.problem(`nothing went wrong, and it ended with ${String(end.how.error)}`)
    }
  }
  const roomy = scenario.longestSample > 1_000
  const undisturbed = roomy && scenario.calm && scenario.pauseMode !== "abort"
  if (finished) checkAccount(disk, oracle, scenario)
  return { seed, policy: scenario.oversampling > 1 ? "oversampled" : scenario.policy, roomy, singleTurn: scenario.environmentShare === 0, undisturbed, problems: oracle.problems, lives, crashes, failures, steps: oracle.steps, finished, virtualMs: atMs, sums: oracle.sums }
}

function checkAccount(disk: Disk, oracle: Oracle, scenario: Scenario): void {
  const audit = auditAccount(disk.account(), true)
  for (const { message } of audit.violations) oracle.problem(message)
  const all = audit.counts.trained + audit.counts.dropped
  if (scenario.prompts !== undefined && oracle.steps < scenario.steps && all + audit.counts.givenBack !== scenario.prompts)
    oracle.problem(`${scenario.prompts} prompts, and ${audit.counts.trained} trained, ${audit.counts.dropped} dropped, ${audit.counts.givenBack} given back`)
  const { ages } = disk.summary()
  if (scenario.policy !== "downWeight" && ages.max !== null && ages.max > scenario.maxStaleness) oracle.problem(`the ledger says that something of age ${ages.max} was trained`)
}
