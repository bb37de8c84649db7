// One seed, one scenario: how the run is set up, how long things take, and what goes wrong when.
import type { RunConfig } from "@cohort/config"
import { type Random, seededRandom, seedOf } from "@cohort/rollout"

/** How one life of the run's process ends, unless the run ends before. */
export type Ending =
  | { readonly kind: "none" }
  /** The process dies while it writes its n-th event. */
  | { readonly kind: "crashAtEvent"; readonly event: number }
  | { readonly kind: "crashAtMs"; readonly afterMs: number }
  | { readonly kind: "interruptAtMs"; readonly afterMs: number }

/** Shares in [0, 1]: how often each thing goes wrong. */
export interface FaultRates {
  /** Requests that never answer. */
  readonly stuck: number
  /** Requests that fail with an error of the server. */
  readonly failed: number
  /** Answers that cannot be trained: log-probs that are no numbers, arrays of unequal length. */
  readonly invalid: number
  readonly rewardFailed: number
  readonly rewardStuck: number
  readonly toolFailed: number
  readonly toolStuck: number
  readonly environmentBroken: number
  readonly syncSlow: number
  /** One server does not take the weights. */
  readonly syncPartial: number
  /** No server takes them: the run ends with an error. */
  readonly syncFailed: number
  readonly syncStuck: number
  readonly nonFinite: number
  /** Prompts that leave no room in the window. */
  readonly overlong: number
}

export interface Scenario {
  readonly seed: number
  /** Nothing goes wrong by itself: such a run must reach its last step. */
  readonly calm: boolean
  readonly policy: "paced" | "drop" | "downWeight" | "mask"
  readonly overdue: "continue" | "cancel"
  readonly steps: number
  readonly groupsPerStep: number
  readonly groupSize: number
  readonly stepsPerSync: number
  readonly maxStaleness: number
  readonly iterations: number
  readonly checkpointEverySteps: number
  readonly minMembers: number
  readonly maxAttempts: number
  readonly queueCapacity: number
  readonly maxGroupsInFlight: number
  readonly maxConcurrentRollouts: number
  readonly filterZeroSpread: boolean
  /** Groups without spread that may be replaced between two steps. */
  readonly maxReplacedPerStep: number | undefined
  /** Groups started per group that is trained; above 1 only with pacing. */
  readonly oversampling: number
  /** Rows of the dataset, which is repeated without end. */
  readonly rows: number
  /** Prompts after which the data ends, if it does. */
  readonly prompts: number | undefined
  readonly engines: number
  readonly pauseMode: "keep" | "wait" | "abort"
  /** Time to read a prompt after its number was given out. */
  readonly readMs: number
  /** Longest sample that fits a batch, tokens. */
  readonly longestSample: number
  /** How samples share rows of a micro-batch. */
  readonly packing: "auto" | "packed" | "rows"
  readonly environmentShare: number
  /** Share of rows whose completions take `slowFactor` times as long. */
  readonly slowShare: number
  readonly tokenMs: number
  readonly stepMs: number
  readonly syncMs: number
  readonly rewardMs: number
  readonly toolMs: number
  readonly rates: FaultRates
  readonly engineDeaths: readonly { readonly engine: number; readonly atMs: number; readonly downMs: number }[]
  readonly pauses: readonly { readonly atMs: number; readonly forMs: number }[]
  /** Freshness limits that are broken now and then. */
  readonly slo: RunConfig["staleness"]["slo"]
  readonly endings: readonly Ending[]
}

export const slowFactor = 20
export const maxTokens = 24
/** Longest that chance alone makes one thing against another of its kind. */
export const longestTail = 12

/** Deadlines of all scenarios, ms. The slowest request that is not stuck takes about 23 s. */
export const deadlines = { generateTimeoutMs: 30_000, toolTimeoutMs: 3_000, environmentTimeoutMs: 3_000, episodeTimeoutMs: 120_000, rewardTimeoutMs: 5_000, transferTimeoutMs: 60_000 }

/** A positive number of mean about 1.9 with a heavy tail: Pareto of index 1.5, cut at `longestTail`. */
export function heavyTail(random: Random): number {
  return Math.min(longestTail, (1 - random()) ** (-1 / 1.5))
}

/** What a step may not take longer than without being called a deadlock, ms of virtual time. */
export const progressBoundMs = 30_000_000

/** The scenario of a seed. */
export function scenarioOf(seed: number): Scenario {
  const random = seededRandom(seedOf(seed, 1))
  const int = (low: number, high: number): number => low + Math.floor(random() * (high - low + 1))
  const pick = <T>(...values: readonly T[]): T => values[Math.floor(random() * values.length)]!
  const rarely = (share: number, high: number): number => (random() < share ? random() * high : 0)
  const policy = pick("paced", "paced", "paced", "paced", "drop", "downWeight", "mask")
  const stepsPerSync = pick(1, 1, 1, 2, 3)
  const groupsPerStep = int(1, 4)
  const groupSize = int(2, 4)
  const maxGroupsInFlight = int(1, 10)
  const engines = int(1, 3)
  const spanMs = 8_000
  const calm = random() < 0.25
  const rate = (share: number, high: number): number => (calm ? 0 : rarely(share, high))
  const rates: FaultRates = {
    stuck: rate(0.3, 0.04),
    failed: rate(0.4, 0.2),
    invalid: rate(0.3, 0.1),
    rewardFailed: rate(0.4, 0.15),
    rewardStuck: rate(0.2, 0.03),
    toolFailed: rate(0.5, 0.3),
    toolStuck: rate(0.2, 0.05),
    environmentBroken: rate(0.2, 0.05),
    syncSlow: rate(0.4, 0.3),
    syncPartial: rate(0.2, 0.3),
    syncFailed: rate(0.15, 0.1),
    syncStuck: rate(0.1, 0.05),
    nonFinite: rate(0.2, 0.2),
    overlong: rate(0.2, 0.1),
  }
  const times = (share: number, most: number): number => (calm || random() > share ? 0 : int(1, most))
  const ending = (): Ending => {
    const kind = pick("crashAtEvent", "crashAtEvent", "crashAtMs", "interruptAtMs")
    return kind === "crashAtEvent" ? { kind, event: int(1, 220) } : { kind, afterMs: int(1, spanMs) }
  }
  return {
    seed, calm, policy, stepsPerSync, groupsPerStep, groupSize, engines, rates, maxGroupsInFlight,
    overdue: policy !== "paced" && random() < 0.4 ? "cancel" : "continue",
    steps: int(3, 8),
    maxStaleness: stepsPerSync - 1 + pick(0, 0, 1, 1, 2, 4),
    iterations: pick(1, 1, 1, 2),
    checkpointEverySteps: int(1, 4),
    minMembers: int(2, groupSize),
    maxAttempts: int(1, 3),
    queueCapacity: int(1, 8),
    maxConcurrentRollouts: groupSize * int(1, maxGroupsInFlight),
    filterZeroSpread: random() < 0.3,
    maxReplacedPerStep: !calm && random() < 0.2 ? int(10, 40) : undefined,
    oversampling: policy === "paced" && random() < 0.25 ? pick(1.3, 1.5, 2) : 1,
    rows: int(1, 30),
    prompts: random() < 0.1 ? int(0, 40) : undefined,
    pauseMode: pick("keep", "keep", "wait", "abort"),
    readMs: pick(0, 0, 0, 15),
    longestSample: random() < 0.1 ? 56 : 1_024,
    environmentShare: pick(0, 0, 0, 0.3, 1),
    slowShare: pick(0, 0.1, 0.3),
    tokenMs: pick(1, 4),
    stepMs: pick(5, 100, 600),
    syncMs: pick(2, 60),
    rewardMs: pick(0, 5, 100),
    toolMs: pick(1, 30),
    engineDeaths: Array.from({ length: times(0.3, 3) }, () => ({ engine: int(0, engines - 1), atMs: int(0, spanMs), downMs: Math.round(500 * heavyTail(random)) })),
    pauses: Array.from({ length: times(0.3, 3) }, () => ({ atMs: int(0, spanMs), forMs: Math.round(200 * heavyTail(random)) })),
    slo: random() < 0.25 ? [{ keep: "age/mean <= 0.5", forSteps: 1, action: pick("throttle", "syncNow") }] : [],
    endings: Array.from({ length: random() < 0.5 ? 0 : int(1, 4) }, ending),
    packing: pick("auto", "auto", "packed", "rows"),
  }
}
