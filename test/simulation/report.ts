// Simulates many seeds in several processes and adds up what they say.
import type { Bug } from "./bug.ts"
import type { Sums } from "./oracle.ts"
import type { Verdict } from "./simulate.ts"

export interface Report {
  readonly seeds: number
  readonly failed: readonly Verdict[]
  readonly finished: number
  readonly lives: number
  readonly crashes: number
  readonly failures: number
  readonly seconds: number
  /** Processor time of all processes. */
  readonly cpuSeconds: number
  /**
   * Of scenarios whose completions fit a batch. `paced`, `drop` and `oversampled`: one request per rollout, with faults. `undisturbed`: paced, also with
   * many turns, nothing goes wrong by itself and requests survive weight syncs.
   */
  readonly bias: Readonly<Record<"paced" | "drop" | "oversampled" | "undisturbed", Bias>>
  /** Groups cut off by oversampling, and groups without spread that were replaced. */
  readonly surplus: number
  readonly replaced: number
}

/**
 * What was trained / what would have been if all that ended had the same chance. Each scenario is its own measure: one in which much is dropped and
 * many prompts are slow must not pass for one in which slow prompts are dropped.
 */
export interface Bias {
  /** Groups of prompts that are 20 times slower. */
  readonly slow: number
  /** Tokens of a rollout. */
  readonly length: number
}

export interface ReportOptions {
  readonly first: number
  readonly count: number
  readonly processes: number
  readonly bug?: Bug
}

/** How to run one seed again, alone. */
export function replayLine(seed: number): string {
  return `SIM_SEED_START=${seed} SIM_SEEDS=1 bun test test/simulation`
}

export async function simulateMany(options: ReportOptions): Promise<Report> {
  const start = performance.now()
  const share = Math.ceil(options.count / options.processes)
  const verdicts: Verdict[] = []
  let cpuSeconds = 0
  await Promise.all(
    Array.from({ length: options.processes }, async (_, index) => {
      const first = options.first + index * share
      const count = Math.min(share, options.first + options.count - first)
      if (count > 0) for await (const verdict of simulateRange(first, count, options.bug, (seconds) => (cpuSeconds += seconds))) verdicts.push(verdict)
    }),
  )
  return { ...addUp(verdicts), seconds: (performance.now() - start) / 1000, cpuSeconds }
}

async function* simulateRange(first: number, count: number, bug: Bug | undefined, onCpu: (seconds: number) => void): AsyncGenerator<Verdict, void, void> {
  const child = Bun.spawn([process.execPath, new URL("main.ts", import.meta.url).pathname, String(first), String(count), ...(bug === undefined ? [] : [bug])], { stdout: "pipe", stderr: "inherit" })
  let seen = 0
  let rest = ""
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) {
      seen++
      yield JSON.parse(line) as Verdict
    }
  }
  const code = await child.exited
  onCpu(Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1e6)
  if (code !== 0 || seen !== count) throw new Error(`the process of seeds ${first} to ${first + count - 1} ended with ${code} after ${seen} seeds; go on with: ${replayLine(first + seen)}`)
}

function addUp(verdicts: readonly Verdict[]): Omit<Report, "seconds" | "cpuSeconds"> {
  const biasOf = (wanted: (verdict: Verdict) => boolean): Bias => {
    const all = verdicts.filter((verdict) => verdict.roomy && wanted(verdict)).map(({ sums }) => sums)
    const ratio = (trained: (sums: Sums) => number, of: (sums: Sums) => number, ended: (sums: Sums) => number, endedOf: (sums: Sums) => number): number => {
      const expected = all.reduce((sum, sums) => sum + (endedOf(sums) === 0 ? 0 : (of(sums) * ended(sums)) / endedOf(sums)), 0)
      return all.reduce((sum, sums) => sum + trained(sums), 0) / expected
    }
    return {
      slow: ratio(({ trainedSlow }) => trainedSlow, ({ trainedGroups }) => trainedGroups, ({ endedSlow }) => endedSlow, ({ endedGroups }) => endedGroups),
      length: ratio(({ trainedTokens }) => trainedTokens, ({ trainedRollouts }) => trainedRollouts, ({ endedTokens }) => endedTokens, ({ endedRollouts }) => endedRollouts),
    }
  }
  const total = (of: (verdict: Verdict) => number): number => verdicts.reduce((sum, verdict) => sum + of(verdict), 0)
  return {
    seeds: verdicts.length,
    failed: verdicts.filter(({ problems }) => problems.length > 0).toSorted((a, b) => a.seed - b.seed),
    finished: verdicts.filter(({ finished }) => finished).length,
    lives: total(({ lives }) => lives),
    crashes: total(({ crashes }) => crashes),
    failures: total(({ failures }) => failures.length),
    surplus: total(({ sums }) => sums.surplus),
    replaced: total(({ sums }) => sums.replaced),
    bias: {
      paced: biasOf(({ policy, singleTurn }) => policy === "paced" && singleTurn),
      drop: biasOf(({ policy, singleTurn }) => policy === "drop" && singleTurn),
      oversampled: biasOf(({ policy, singleTurn }) => policy === "oversampled" && singleTurn),
      undisturbed: biasOf(({ policy, undisturbed }) => policy === "paced" && undisturbed),
    },
  }
}
