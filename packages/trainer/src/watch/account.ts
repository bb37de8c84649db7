// Where the trainer's wall-clock went, step by step: parts that add up to it, the largest named, with what to do about it.
import type { GroupTiming, SampleGroup } from "@cohort/rollout"

/** Parts of a step's wall-clock, in seconds; they add up to it. */
export interface StepAccount {
  /** Forward, backward and optimizer. */
  readonly compute: number
  readonly weightSync: number
  /** Waiting for groups that were being generated; for their rewards; for their tools and environments. */
  readonly generation: number
  readonly rewards: number
  readonly tools: number
  /** Waiting for groups that the staleness policy let start late. */
  readonly pacing: number
  /** Waiting for groups that started late because finished ones had filled the queue. */
  readonly backPressure: number
  /** Waiting for groups that started late because the worker was paused. */
  readonly paused: number
  /** Checkpoints, evaluations and trackers since the step before. */
  readonly between: number
  /** What is left: planning batches, taking groups that were ready. */
  readonly other: number
}

/** How long the trainer waited for one group. */
export interface GroupWait {
  readonly group: Pick<SampleGroup, "startedAtMs" | "queuedAtMs" | "timing">
  readonly askedAtMs: number
  readonly gotAtMs: number
}

export interface StepTimes {
  /** End of the step before, or start of the loop. */
  readonly fromMs: number
  readonly startMs: number
  readonly endMs: number
  readonly waits: readonly GroupWait[]
  readonly computeSeconds: number
  readonly weightSyncSeconds: number
}

type WaitPart = "generation" | "rewards" | "tools" | "pacing" | "backPressure" | "paused"

const startedLateBy = { queue: "backPressure", policy: "pacing", paused: "paused", servers: "generation" } as const satisfies Record<NonNullable<GroupTiming["blockedBy"]>, WaitPart>

/**
 * The account of a step.
 *
 * A wait ends with one group. As much of it as that group was held up before it started is the fault of what held it up: without that it would
 * have come so much earlier. The rest is laid over the group's own time: generating (less its tools' share), in tools, being scored.
 *
 * @example
 * accountOf(times).generation // 3.2
 */
export function accountOf(times: StepTimes): StepAccount {
  const waits = { generation: 0, rewards: 0, tools: 0, pacing: 0, backPressure: 0, paused: 0 }
  for (const wait of times.waits) for (const [part, ms] of partsOf(wait)) waits[part] += ms / 1000
  const between = (times.startMs - times.fromMs) / 1000
  const step = (times.endMs - times.startMs) / 1000
  const waited = Object.values(waits).reduce((sum, seconds) => sum + seconds, 0)
  // Clocks of different resolution may disagree by a hair: nothing is ever below zero.
  const other = Math.max(0, step - waited - times.computeSeconds - times.weightSyncSeconds)
  return { compute: times.computeSeconds, weightSync: times.weightSyncSeconds, ...waits, between, other }
}

function* partsOf({ group, askedAtMs, gotAtMs }: GroupWait): Generator<readonly [WaitPart, number]> {
  const waited = Math.max(0, gotAtMs - askedAtMs)
  const { timing } = group
  if (timing === undefined) {
    yield ["generation", waited]
    return
  }
  const late = timing.blockedBy === undefined ? 0 : Math.min(waited, timing.blockedMs)
  if (timing.blockedBy !== undefined) yield [startedLateBy[timing.blockedBy], late]
  const rest = waited - late
  if (rest <= 0) return
  const generated = overlap(group.startedAtMs, timing.generatedAtMs, askedAtMs, gotAtMs)
  const scored = overlap(timing.generatedAtMs, group.queuedAtMs, askedAtMs, gotAtMs)
  const toolShare = Math.min(1, timing.toolMs / Math.max(1e-9, timing.generatedAtMs - group.startedAtMs))
  const own = generated + scored
  if (own <= 0) {
    yield ["generation", rest]
    return
  }
  yield ["rewards", (rest * scored) / own]
  yield ["tools", (rest * generated * toolShare) / own]
  yield ["generation", (rest * generated * (1 - toolShare)) / own]
}

function overlap(from: number, to: number, askedAtMs: number, gotAtMs: number): number {
  return Math.max(0, Math.min(to, gotAtMs) - Math.max(from, askedAtMs))
}

/** The largest part and what to do about it. */
export interface Bottleneck {
  readonly part: keyof StepAccount
  /** Its share of the whole. */
  readonly share: number
  readonly advice: string
}

/** Reads several steps' accounts together; one step alone is noisy. */
export function bottleneckOf(accounts: readonly StepAccount[]): Bottleneck | null {
  const sums = new Map<keyof StepAccount, number>()
  for (const account of accounts) for (const [part, seconds] of Object.entries(account) as [keyof StepAccount, number][]) sums.set(part, (sums.get(part) ?? 0) + seconds)
  const whole = [...sums.values()].reduce((sum, seconds) => sum + seconds, 0)
  const [largest] = [...sums].toSorted(([, a], [, b]) => b - a)
  if (largest === undefined || whole <= 0) return null
  const [part, seconds] = largest
  return { part, share: seconds / whole, advice: adviceFor(part, seconds, sums.get("compute") ?? 0) }
}

function adviceFor(part: keyof StepAccount, seconds: number, compute: number): string {
  const ratio = compute > 0 ? (seconds + compute) / compute : Number.POSITIVE_INFINITY
  const times = Number.isFinite(ratio) ? `about ${ratio.toFixed(1)} times` : "many times"
  switch (part) {
    case "compute":
      return "The trainer is the bottleneck; rollouts keep up. Faster training, or fewer servers, would change the balance."
    case "weightSync":
      return "Publishing weights takes the most time: raise staleness.weightSyncSteps, or choose a faster transfer."
    case "generation":
      return `The trainer waits for generation: ${times} the present capacity of the servers would keep it busy. Shorter completions or more staleness.maxSteps help too.`
    case "rewards":
      return "The trainer waits for rewards: make the slowest faster, or let more groups be in flight (rollout.maxInflightGroups)."
    case "tools":
      return "The trainer waits for tools and environments: make them faster, or let more groups be in flight (rollout.maxInflightGroups)."
    case "pacing":
      return "Groups start late because none may be too old when it is trained: raise staleness.maxSteps, or push weights more often."
    case "backPressure":
      return "The queue was full, then empty: raise rollout.queueGroups to at least the groups of one step."
    case "paused":
      return "The worker was paused."
    case "between":
      return "Checkpoints, evaluations and trackers take the most time: make them rarer."
    case "other":
      return "Most time is spent outside of training and waiting: smaller steps cost their overhead more often."
  }
}
