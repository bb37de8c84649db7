// What must hold in every scenario, checked from outside: from events as they happen, and from the tokens that reached the optimizer.
import type { LedgerEventInput } from "@cohort/ledger"
import type { RolloutWorker, SampleGroup, WorkerStatus } from "@cohort/rollout"
import type { Scenario } from "./scenario.ts"
import type { TrainedRow } from "./trainer.ts"

interface OpenGroup {
  /** Last step at which it is within the bound; later once it is queued, where it was generated again with newer weights. */
  deadline: number
  readonly slow: boolean
  queued: { readonly oldestVersion: number } | undefined
  rollouts: number
  tokens: number
}

/** Sums over a scenario, for figures over many. Groups that were given back or lost come again and count then. */
export interface Sums {
  endedGroups: number
  endedSlow: number
  endedRollouts: number
  endedTokens: number
  trainedGroups: number
  trainedSlow: number
  trainedRollouts: number
  trainedTokens: number
  staleDrops: number
  surplus: number
  /** Groups without spread that were replaced. */
  replaced: number
}

const noSums: Sums = { endedGroups: 0, endedSlow: 0, endedRollouts: 0, endedTokens: 0, trainedGroups: 0, trainedSlow: 0, trainedRollouts: 0, trainedTokens: 0, staleDrops: 0, surplus: 0, replaced: 0 }

export class Oracle {
  readonly problems: string[] = []
  readonly sums: Sums = { ...noSums }
  readonly #scenario: Scenario
  readonly #isSlow: (occurrence: number) => boolean
  readonly #rowIndexOf: (occurrence: number) => number
  /** Rows by the step that trained them, as far as no resume undid them. */
  readonly #lineage = new Map<number, readonly TrainedRow[]>()
  readonly #open = new Map<number, OpenGroup>()
  /** Occurrences that some group.trained event names, by step. */
  readonly #said = new Map<number, number>()

  #accountedMs = 0
  #replacedSinceStep = 0

  constructor(scenario: Scenario, of: { readonly isSlow: (occurrence: number) => boolean; readonly rowIndex: (occurrence: number) => number }) {
    this.#scenario = scenario
    this.#isSlow = of.isSlow
    this.#rowIndexOf = of.rowIndex
  }

  problem(text: string): void {
    // One fault shows many times; the first few tell it all.
    if (this.problems.length < 8) this.problems.push(text)
  }

  /** A life begins: what was trained after `step` steps is undone. */
  begin(step: number, atMs: number): void {
    this.#accountedMs = atMs
    this.#replacedSinceStep = 0
    this.#open.clear()
    for (const at of this.#lineage.keys()) if (at >= step) this.#lineage.delete(at)
    for (const [occurrence, at] of this.#said) if (at >= step) this.#said.delete(occurrence)
  }

  event(event: LedgerEventInput, worker: Pick<RolloutWorker, "status">): void {
    const { kind, occurrence } = event
    if (kind === "step.account") this.#accounted(event)
    if (occurrence === undefined) return
    if (kind === "group.admitted") this.#admitted(occurrence, event.version!, worker.status)
    const open = this.#open.get(occurrence)
    if (kind === "group.queued" && open !== undefined) {
      open.queued = { oldestVersion: event.version! }
      open.deadline = Math.max(open.deadline, event.version! + this.#scenario.maxStaleness)
    }
    if (kind === "group.dropped" || kind === "group.givenBack" || kind === "group.trained") this.#open.delete(occurrence)
    if (open !== undefined && (kind === "group.dropped" || kind === "group.trained")) this.#ended(open)
    if (kind === "group.dropped" && event.reason === "stale") {
      this.sums.staleDrops++
      if (this.#isPunctual()) this.problem(`occurrence ${occurrence} was dropped for its age, which pacing rules out`)
    }
    if (kind === "group.dropped" && event.reason === "surplus") {
      this.sums.surplus++
      if (this.#scenario.oversampling === 1) this.problem(`occurrence ${occurrence} was cut off as surplus without oversampling`)
    }
    if (kind === "group.dropped" && event.reason === "zero_spread") this.#replaced()
    if (kind === "rollout.generated" && open !== undefined) {
      open.rollouts++
      open.tokens += Number(event.data?.tokens)
    }
    if (kind === "group.trained") this.#trained(occurrence, event)
  }

  #replaced(): void {
    const { filterZeroSpread, maxReplacedPerStep = Number.POSITIVE_INFINITY } = this.#scenario
    this.sums.replaced++
    if (!filterZeroSpread) this.problem("a group without spread was dropped, and none is filtered")
    // The one above the cap ends the run.
    if (++this.#replacedSinceStep > maxReplacedPerStep + 1) this.problem(`${this.#replacedSinceStep} groups were replaced between two steps, above ${maxReplacedPerStep}`)
  }

  #admitted(occurrence: number, version: number, status: WorkerStatus): void {
    const { stepsPerSync, maxStaleness, queueCapacity, maxGroupsInFlight, maxConcurrentRollouts } = this.#scenario
    if (this.#open.has(occurrence)) this.problem(`occurrence ${occurrence} was admitted while it was open`)
    const slow = this.#isSlow(occurrence)
    this.#open.set(occurrence, { deadline: version - (version % stepsPerSync) + maxStaleness, slow, queued: undefined, rollouts: 0, tokens: 0 })
    if (status.queueDepth > queueCapacity + maxGroupsInFlight) this.problem(`${status.queueDepth} groups are queued, above ${queueCapacity} and ${maxGroupsInFlight} that may wait for room`)
    if (status.groupsInFlight > maxGroupsInFlight + queueCapacity) this.problem(`${status.groupsInFlight} groups are in flight, above ${maxGroupsInFlight}`)
    if (status.rolloutsInFlight > maxConcurrentRollouts) this.problem(`${status.rolloutsInFlight} rollouts are in flight, above ${maxConcurrentRollouts}`)
  }

  /** The account of the trainer's time adds up to the time that passed. */
  #accounted({ atMs, data, step }: LedgerEventInput): void {
    const parts = Object.entries(data ?? {}).filter(([name]) => name !== "bottleneck" && name !== "share").map(([, seconds]) => Number(seconds))
    const sum = parts.reduce((total, seconds) => total + seconds, 0) * 1000
    const passed = atMs - this.#accountedMs
    if (Math.abs(sum - passed) > 1e-3 || parts.some((part) => part < 0)) this.problem(`step ${step} accounts for ${sum} ms, and ${passed} ms passed`)
    this.#accountedMs = atMs
  }

  #ended({ slow, rollouts, tokens }: OpenGroup): void {
    this.sums.endedGroups++
    if (slow) this.sums.endedSlow++
    this.sums.endedRollouts += rollouts
    this.sums.endedTokens += tokens
  }

  /** The trainer got a group: no older one may have been waiting. */
  taken(group: SampleGroup): void {
    const open = this.#open.get(group.occurrence)
    if (open?.queued === undefined) {
      this.problem(`occurrence ${group.occurrence} was taken without having been queued`)
      return
    }
    // As it was queued: a policy that masks hands it out without its oldest tokens.
    const { oldestVersion } = open.queued
    open.queued = undefined
    for (const [occurrence, { queued }] of this.#open) {
      if (queued === undefined) continue
      const older = queued.oldestVersion < oldestVersion || (queued.oldestVersion === oldestVersion && occurrence < group.occurrence)
      if (older) this.problem(`occurrence ${group.occurrence} of version ${oldestVersion} was taken before ${occurrence} of version ${queued.oldestVersion}`)
    }
  }

  #trained(occurrence: number, event: LedgerEventInput): void {
    const step = event.version!
    this.#said.set(occurrence, step)
    const rows = (this.#lineage.get(step) ?? []).filter((row) => row.occurrence === occurrence)
    if (rows.length === 0) this.problem(`occurrence ${occurrence} is said to be trained in step ${step}, but none of its rows reached the optimizer`)
    const oldest = Math.min(...rows.map(({ oldestVersion }) => oldestVersion))
    if (rows.length > 0 && this.#scenario.longestSample > 1_000 && oldest !== event.data?.oldestVersion)
      this.problem(`occurrence ${occurrence} was trained on tokens of version ${oldest}, its event says ${String(event.data?.oldestVersion)}`)
    this.sums.trainedGroups++
    if (this.#isSlow(occurrence)) this.sums.trainedSlow++
    this.sums.trainedRollouts += new Set(rows.map(({ sampleId }) => sampleId.split("/")[0])).size
    this.sums.trainedTokens += rows.reduce((sum, { trainedTokens }) => sum + trainedTokens, 0)
  }

  /** The optimizer took a step. */
  commit(step: number, passes: readonly TrainedRow[]): void {
    const { policy, maxStaleness, iterations } = this.#scenario
    const rows = [...new Map(passes.map((row) => [row.sampleId, row])).values()]
    if (passes.length !== rows.length * iterations) this.problem(`step ${step} trained ${passes.length} rows, ${rows.length} different ones, in ${iterations} passes`)
    if (rows.length === 0) this.problem(`step ${step} trained nothing`)
    for (const row of rows) {
      const age = step - row.oldestVersion
      if (row.rowIndex !== this.#rowIndexOf(row.occurrence)) this.problem(`${row.sampleId} holds the prompt of row ${row.rowIndex}`)
      if (age < 0) this.problem(`${row.sampleId} was trained at version ${step}, before its version ${row.oldestVersion}`)
      if (policy !== "downWeight" && age > maxStaleness) this.problem(`${row.sampleId} was ${age} steps old when it was trained, above ${maxStaleness}`)
      if (policy === "downWeight" && row.weight > 0.5 ** Math.max(0, age - maxStaleness)) this.problem(`${row.sampleId} of age ${age} was trained at weight ${row.weight}`)
      for (const [at, before] of this.#lineage)
        if (before.some(({ occurrence }) => occurrence === row.occurrence)) this.problem(`occurrence ${row.occurrence} was trained in step ${at} and again in step ${step}`)
    }
    this.#lineage.set(step, rows)
  }

  /** The trainer goes on with `version`: with pacing, nobody whose last step is over may still be open. */
  version(version: number): void {
    this.#replacedSinceStep = 0
    if (!this.#isPunctual()) return
    for (const [occurrence, { deadline, slow }] of this.#open)
      if (deadline < version) this.problem(`${slow ? "slow" : "fast"} occurrence ${occurrence} had to be trained by step ${deadline}, and version is ${version}`)
  }

  /** Pacing promises its bound to servers that follow the trainer: none keeps old weights, none comes back with them. Oversampling gives the promise up. */
  #isPunctual(): boolean {
    const { policy, rates, engineDeaths, oversampling } = this.#scenario
    return policy === "paced" && oversampling === 1 && rates.syncPartial === 0 && engineDeaths.length === 0
  }

  /** A life ended in order: nothing is open, and what was trained is what was said. */
  closed(trainedInLedger: ReadonlySet<number>): void {
    for (const occurrence of this.#open.keys()) this.problem(`occurrence ${occurrence} was admitted and never ended`)
    const trained = new Set([...this.#lineage.values()].flat().map(({ occurrence }) => occurrence))
    for (const occurrence of trained.symmetricDifference(trainedInLedger))
      this.problem(`occurrence ${occurrence} is ${trained.has(occurrence) ? "trained, but the ledger does not say so" : "not trained, but the ledger says so"}`)
  }

  get steps(): number {
    return this.#lineage.size
  }
}
