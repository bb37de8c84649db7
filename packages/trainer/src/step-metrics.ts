// The figures of one optimizer step, by the names that trackers, the ledger and the command line use.
import { type BatchFacts, batchMetricDefinitions } from "@cohort/batching"
import { metricDefinitions, type ObjectiveMetrics } from "@cohort/loss"
import type { BiasReport, Drops, Freshness, SampleGroup, WorkerStatus } from "@cohort/rollout"
import type { StepAccount } from "./watch/account.ts"

export interface StepFigures {
  /** Policy version that was trained. */
  readonly version: number
  readonly groups: readonly SampleGroup[]
  readonly metrics: ObjectiveMetrics
  readonly batch: BatchFacts
  readonly freshness: Freshness
  /** Of the groups that wait in the queue, against the version that is trained next. */
  readonly queued: Freshness
  readonly account: StepAccount
  readonly bias: BiasReport | undefined
  /** What ended untrained since the step before. */
  readonly drops: Drops | undefined
  /** KL taken off the rewards, mean per completion. */
  readonly klPerCompletion: number | undefined
  readonly gradNorm: number
  readonly learningRate: number
  readonly samples: number
  readonly status: WorkerStatus
  /** Wall-clock of the whole step; waiting for groups; computing; publishing weights. */
  readonly seconds: number
  readonly waitSeconds: number
  readonly trainSeconds: number
  readonly syncSeconds: number
}

/** Definitions of what this module adds to the loss package's; the docs table is made from both. */
export const stepMetricDefinitions: readonly { readonly name: string; readonly unit: string; readonly formula: string; readonly doc: string }[] = [
  { name: "reward/mean", unit: "reward", formula: "mean over groups of the group's mean total", doc: "Mean total reward of the completions trained in this step." },
  { name: "reward/<name>", unit: "reward", formula: "mean over groups of the group's mean of that reward", doc: "One reward before its weight." },
  { name: "reward/zero_spread", unit: "share", formula: "groups whose totals are all equal / groups", doc: "Groups that teach nothing. Near 1: the task is too easy or too hard." },
  { name: "kl/completion", unit: "nats", formula: "mean over completions of sum(estimator(log q - log behaviour))", doc: "KL to the reference that lowers rewards, before its coefficient; only with objective.klIn = \"reward\". reward/mean is without it." },
  { name: "age/mean, age/p50, age/p95, age/p99, age/max", unit: "steps", formula: "version being trained - oldest version of the sample, weighted by trained tokens", doc: "How old the trained data is." },
  { name: "age/share_<age>", unit: "share", formula: "trained tokens of that age / trained tokens", doc: "How the trained tokens are spread over ages." },
  { name: "version", unit: "steps", formula: "optimizer steps taken before this one", doc: "Policy version that was trained; ages are counted from it." },
  { name: "queue/age_mean, queue/age_p50, queue/age_p95, queue/age_p99, queue/age_max", unit: "steps", formula: "version trained next - oldest version of the sample, weighted by trained tokens, over the queue", doc: "How old the data is that waits: what the next steps will train on." },
  { name: "queue/age_share_<age>", unit: "share", formula: "trained tokens of that age / trained tokens, over the queue", doc: "How the waiting tokens are spread over ages." },
  { name: "dropped/<reason>", unit: "groups", formula: "groups that ended untrained since the step before, by reason", doc: "zero_spread: replaced by dynamic sampling. surplus: cut off by oversampling. stale: too old. prompt_too_long: over data.maxPromptTokens or the window. Others are failures; absent where there were none." },
  { name: "failed/<reason>", unit: "completions", formula: "rollouts that left their group since the step before, by reason", doc: "Their group goes on without them while two are left." },
  { name: "repetition", unit: "share", formula: "mean over rollouts of 1 - different 4-grams / 4-grams", doc: "Near 1: completions repeat themselves." },
  { name: "time/compute, time/weight_sync, time/generation, time/rewards, time/tools, time/pacing, time/back_pressure, time/paused, time/between, time/other", unit: "s", formula: "parts of the wall-clock since the step before; they add up to it", doc: "Where the trainer's time went: training, publishing weights, waiting for groups because of each cause, checkpoints and evaluations between steps." },
  { name: "bias/length, bias/duration, bias/duration_p90", unit: "ratio", formula: "mean (90th percentile) over trained groups / over all groups that ended, of the last 512", doc: "Far from 1: short or fast rollouts reach the trainer more often than they are drawn." },
  { name: "bias/environment_<name>", unit: "ratio", formula: "share of the environment among trained groups / among all groups that ended, of the last 512", doc: "Far from 1: rows of this environment are trained more or less often than they are drawn. none: rows without one." },
  { name: "length/mean", unit: "tokens", formula: "completion tokens / completions", doc: "Mean completion length, stop tokens included." },
  { name: "turns", unit: "turns", formula: "turns of the model / completions", doc: "Mean turns of a rollout; 1 without tools and environment." },
  { name: "ended/<why>", unit: "share", formula: "completions that ended for that reason / completions", doc: "stop: the model was done. environment: the environment was. length, window, turns, toolRounds, episodeTokens: a limit cut it; window is what the server can hold. Absent where none did." },
  { name: "tools/calls", unit: "calls", formula: "tool calls / completions", doc: "Calls per rollout; absent where nothing was called." },
  { name: "tools/failures", unit: "share", formula: "calls answered with an error / calls", doc: "Unreadable calls, wrong arguments, unknown names, exceptions, missed deadlines." },
  { name: "truncated", unit: "share", formula: "mean over groups of the share of truncated completions", doc: "Completions cut by any limit." },
  { name: "grad_norm", unit: "1", formula: "L2 norm of all gradients before clipping", doc: "Far above its usual value: a bad batch or a learning rate too high." },
  { name: "lr", unit: "1", formula: "schedule at this step", doc: "Learning rate of this step." },
  { name: "samples", unit: "completions", formula: "completions trained", doc: "Completions trained in this step; their prompts are `batch/prompts`." },
  { name: "queue/depth", unit: "groups", formula: "groups waiting when the step ended", doc: "Near 0: the trainer waits for rollouts. At its bound: rollouts wait for the trainer." },
  { name: "queue/in_flight", unit: "groups", formula: "groups being generated or scored when the step ended", doc: "Rollout concurrency." },
  { name: "step_seconds, wait_seconds, train_seconds, sync_seconds", unit: "s", formula: "wall-clock of the step and its parts", doc: "Where the step's time went: waiting for groups, computing, publishing weights." },
  { name: "samples_per_second", unit: "completions/s", formula: "samples / step_seconds", doc: "Throughput of the whole loop." },
  { name: "trained_tokens_per_second", unit: "tokens/s", formula: "trained tokens / step_seconds", doc: "Throughput in tokens that carry a gradient." },
]

const accountNames: Readonly<Record<keyof StepAccount, string>> = {
  compute: "compute", weightSync: "weight_sync", generation: "generation", rewards: "rewards", tools: "tools", pacing: "pacing",
  backPressure: "back_pressure", paused: "paused", between: "between", other: "other",
}

/** All figures by name; what has no value in this step is left out, never zero. */
export function stepMetrics(figures: StepFigures): Record<string, number> {
  const { groups, metrics, batch, freshness, status } = figures
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
  const out: Record<string, number> = {
    "reward/mean": mean(groups.map((group) => group.rewardMean)),
    "reward/zero_spread": mean(groups.map((group) => (group.samples.every((sample) => sample.advantage === 0) ? 1 : 0))),
    "length/mean": groups.reduce((sum, group) => sum + group.completionTokens, 0) / groups.reduce((sum, group) => sum + group.rewards.length, 0),
    truncated: mean(groups.map((group) => group.truncatedShare)),
    version: figures.version,
    grad_norm: figures.gradNorm,
    lr: figures.learningRate,
    samples: figures.samples,
    "queue/depth": status.queueDepth,
    "queue/in_flight": status.groupsInFlight,
    step_seconds: figures.seconds,
    wait_seconds: figures.waitSeconds,
    train_seconds: figures.trainSeconds,
    sync_seconds: figures.syncSeconds,
    samples_per_second: figures.samples / figures.seconds,
    trained_tokens_per_second: metrics.tokens / figures.seconds,
  }
  const set = (name: string, value: number | null): void => {
    if (value !== null) out[name] = value
  }
  for (const name of new Set(groups.flatMap((group) => Object.keys(group.rewardParts))))
    out[`reward/${name}`] = mean(groups.flatMap((group) => group.rewardParts[name] ?? []))
  for (const name of ["mean", "p50", "p95", "p99", "max"] as const) if (freshness[name] !== null) out[`age/${name}`] = freshness[name]
  for (const name of ["mean", "p50", "p95", "p99", "max"] as const) if (figures.queued[name] !== null) out[`queue/age_${name}`] = figures.queued[name]
  for (const { age, share } of freshness.shareByAge) out[`age/share_${age}`] = share
  for (const { age, share } of figures.queued.shareByAge) out[`queue/age_share_${age}`] = share
  for (const [reason, count] of Object.entries(figures.drops?.groups ?? {})) out[`dropped/${reason}`] = count
  for (const [reason, count] of Object.entries(figures.drops?.rollouts ?? {})) out[`failed/${reason}`] = count
  if (figures.klPerCompletion !== undefined) out["kl/completion"] = figures.klPerCompletion
  Object.assign(out, episodeMetrics(groups))
  const repetitions = groups.flatMap((group) => group.repetition ?? [])
  if (repetitions.length > 0) out.repetition = mean(repetitions)
  for (const [part, seconds] of Object.entries(figures.account)) out[`time/${accountNames[part as keyof StepAccount]}`] = seconds
  const { length = null, duration = null, durationP90 = null, environments = {} } = figures.bias ?? {}
  for (const [name, value] of [["length", length], ["duration", duration], ["duration_p90", durationP90]] as const) if (value !== null) out[`bias/${name}`] = value
  for (const [name, value] of Object.entries(environments)) out[`bias/environment_${name}`] = value
  for (const { name, valueOf } of batchMetricDefinitions) set(name, valueOf(batch))
  for (const { name, valueOf } of metricDefinitions) set(name, valueOf(metrics))
  return out
}

function episodeMetrics(groups: readonly SampleGroup[]): Record<string, number> {
  const episodes = groups.flatMap((group) => group.episodes ?? [])
  const sum = (of: (figures: (typeof episodes)[number]) => number): number => episodes.reduce((total, figures) => total + of(figures), 0)
  const count = sum(({ ends }) => Object.values(ends).reduce((total, rollouts) => total + rollouts, 0))
  if (count === 0) return {}
  const out: Record<string, number> = { turns: sum(({ turns }) => turns) / count }
  for (const why of new Set(episodes.flatMap(({ ends }) => Object.keys(ends) as (keyof typeof ends)[]))) out[`ended/${why}`] = sum(({ ends }) => ends[why] ?? 0) / count
  const calls = sum(({ toolCalls }) => toolCalls)
  return calls === 0 ? out : { ...out, "tools/calls": calls / count, "tools/failures": sum(({ toolFailures }) => toolFailures) / calls }
}
