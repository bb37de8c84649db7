// The training loop: take a window of groups, train it, publish the weights, say so. Synchronous training is this loop with
// `staleness.maxSteps` 0; nothing in here knows the difference.
import type { StepPlanner } from "@cohort/batching"
import type { RunConfig } from "@cohort/config"
import { CohortError, messageOf } from "@cohort/errors"
import { type EntropyControl, referenceMoves } from "@cohort/loss"
import { type BiasMonitor, type Clock, type DropCounter, freshnessOf, freshnessOfTokens, type RolloutWorker, type SampleGroup, withDeadline } from "@cohort/rollout"
import type { WeightTransfer } from "@cohort/weight-transfer"
import type { TrainerBackend } from "./backend.ts"
import { entropyAfter, type RewardWeights } from "./objective.ts"
import type { RunUpdate, StopReason, SyncReport } from "./run.ts"
import { stepMetrics } from "./step-metrics.ts"
import { trainWindow } from "./train-window.ts"
import { refusalOf } from "./trainable.ts"
import { accountOf, type Bottleneck, bottleneckOf, type StepAccount, type StepTimes } from "./watch/account.ts"
import type { StepWatch } from "./watch/watch.ts"
import { takeWindow } from "./window.ts"

/** Sums over the steps of a run; a resumed run goes on from its checkpoint's. */
export interface Progress {
  step: number
  samplesTrained: number
  trainedTokens: number
  trainSeconds: number
  /** Of an adaptive entropy bonus. */
  entropy: EntropyControl
}

export interface LoopOptions {
  readonly config: RunConfig
  readonly backend: TrainerBackend
  readonly worker: RolloutWorker
  readonly transfer: WeightTransfer
  /** Cuts each step into micro-batches. */
  readonly planner: StepPlanner
  readonly groupsPerStep: number
  readonly rewards: RewardWeights
  readonly progress: Progress
  readonly clock: Clock
  /** Ends the run after the step in progress. */
  readonly signal: AbortSignal
  readonly append: (event: { kind: string; step?: number; version?: number; occurrence?: number; groupId?: string; reason?: string; data?: Record<string, unknown> }) => void
  /** Runs what changes and publishes the weights: alone, where inference shares them. */
  readonly exclusively: <T>(body: () => Promise<T>) => Promise<T>
  /** A group that was taken and will not be trained here: its prompt comes again. */
  readonly giveBack: (occurrence: number) => void
  /** Told of each finished step before the next begins: trackers, checkpoints and evaluations hang here. */
  readonly onStep: (step: number, metrics: Readonly<Record<string, number>>) => Promise<void>
  /** Guardrails, freshness limits and callbacks; without it nothing is watched. */
  readonly watch?: StepWatch
  /** Who reaches the trainer; its figures join the step's. */
  readonly bias?: Pick<BiasMonitor, "report">
  /** What ended untrained; its counts join the step's figures. */
  readonly drops?: Pick<DropCounter, "take">
  readonly onUpdate: (update: RunUpdate) => void
  readonly onSync: (report: SyncReport) => void
  /** What the last steps' time went to. */
  readonly onBottleneck?: (bottleneck: Bottleneck | null) => void
}

/** Steps that are looked at together to name the bottleneck. */
const accountSteps = 10

/** Steps in a row whose gradient was not finite before the run stops. */
const maxSkippedInRow = 3

/** Trains until a stop condition of the config holds, the prompts end, or the signal aborts. */
export async function trainLoop(options: LoopOptions): Promise<StopReason> {
  const { config, worker, progress, clock, signal } = options
  const iterator = worker.samples[Symbol.asyncIterator]()
  const startedAt = clock.now()
  const account = createAccountant(options, startedAt)
  let skippedInRow = 0
  while (progress.step < config.train.steps) {
    const stepStart = clock.now()
    const window = await takeWindow({
      groups: options.groupsPerStep, iterator, worker, clock, heartbeatStaleMs: config.rollout.heartbeatStaleMs, signal,
      refusal: (group) => refusalOf(config, options.planner.longest, group),
      onLate: ({ occurrence }) => options.giveBack(occurrence),
    })
    if (window.groups.length < options.groupsPerStep) {
      for (const group of window.groups) options.giveBack(group.occurrence)
      return signal.aborted ? "interrupted" : "data"
    }
    const version = progress.step
    const { trained, sync } = await options.exclusively(async () => {
      const result = await trainWindow(options, window.groups)
      const due = !result.skipped && (version + 1) % config.staleness.weightSyncSteps === 0
      return { trained: result, sync: due ? await publish(options, version + 1) : undefined }
    })
    if (trained.skipped) {
      for (const group of window.groups) worker.release(group.occurrence, "non_finite_gradient")
      options.onUpdate({ kind: "warning", message: `step ${version + 1}: the gradient is not finite (norm ${trained.gradNorm}, loss ${trained.metrics.loss}); weights stay as they were and its ${window.groups.length} groups are dropped` })
      if (++skippedInRow >= maxSkippedInRow)
        throw new CohortError("numeric", `${skippedInRow} steps in a row had a gradient that is not finite`, { hint: "Lower train.learningRate or train.maxGradNorm, and look at reward and completion lengths of the last steps." })
      continue
    }
    skippedInRow = 0
    progress.step = version + 1
    progress.samplesTrained += trained.samples
    progress.trainedTokens += trained.metrics.tokens
    if (trained.metrics.tokens > 0) progress.entropy = entropyAfter(config, progress.entropy, trained.metrics.entropySum / trained.metrics.tokens)
    await followReference(options)
    for (const group of window.groups) recordTrained(options, group, version)
    worker.setPolicyVersion(progress.step)
    const endMs = clock.now()
    const seconds = (endMs - stepStart) / 1000
    progress.trainSeconds += seconds
    const where = account(progress.step, { startMs: stepStart, endMs, waits: window.waits, computeSeconds: trained.seconds, weightSyncSeconds: sync?.wallSeconds ?? 0 })
    const metrics = stepMetrics({
      account: where, queued: freshnessOfTokens(worker.queued, progress.step), bias: options.bias?.report(), drops: options.drops?.take(), version,
      groups: window.groups, metrics: trained.metrics, batch: trained.batch, freshness: freshnessOf(window.groups.flatMap((group) => group.samples), version),
      klPerCompletion: trained.klPerCompletion, gradNorm: trained.gradNorm, learningRate: trained.learningRate, samples: trained.samples, status: worker.status,
      seconds, waitSeconds: window.waitSeconds, trainSeconds: trained.seconds, syncSeconds: sync?.seconds ?? 0,
    })
    await options.onStep(progress.step, metrics)
    if ((await heed(options, metrics, sync !== undefined)) !== undefined) return "guardrail"
    if (signal.aborted) return "interrupted"
    if (config.train.maxSeconds !== undefined && (clock.now() - startedAt) / 1000 >= config.train.maxSeconds) return "time"
    if (config.train.stopAtReward !== undefined && metrics["reward/mean"]! >= config.train.stopAtReward) return "reward"
  }
  return "steps"
}

/** Moves a moving reference after the steps at which it does, before a checkpoint could miss it. */
async function followReference({ config: { objective }, backend, progress }: LoopOptions): Promise<void> {
  if (objective.klCoefficient === 0 || objective.reference === "start") return
  if (referenceMoves(progress.step, { everySteps: objective.referenceEverySteps, mix: objective.referenceMix })) await backend.moveReference(objective.referenceMix)
}

/** Warns, publishes weights ahead of time, or says why the run ends, as the watch asks. */
async function heed(options: LoopOptions, metrics: Readonly<Record<string, number>>, published: boolean): Promise<string | undefined> {
  const { watch, progress, append, onUpdate } = options
  if (watch === undefined) return undefined
  const { step } = progress
  const { warnings, stop, syncNow } = await watch.check(step, metrics)
  for (const message of warnings) {
    append({ kind: "watch.warned", step, reason: message })
    onUpdate({ kind: "warning", message: `step ${step}: ${message}` })
  }
  if (syncNow && !published && stop === undefined) await options.exclusively(() => publish(options, step))
  if (stop === undefined) return undefined
  append({ kind: "watch.stopped", step, reason: stop })
  onUpdate({ kind: "warning", message: `step ${step}: the run is stopped: ${stop}` })
  return stop
}

/** Keeps the accounts of the last steps and writes each to the ledger with the bottleneck that they show together. */
function createAccountant(options: LoopOptions, startedAt: number): (step: number, times: Omit<StepTimes, "fromMs">) => StepAccount {
  const recent: StepAccount[] = []
  let fromMs = startedAt
  return (step, times) => {
    const account = accountOf({ ...times, fromMs })
    fromMs = times.endMs
    recent.push(account)
    if (recent.length > accountSteps) recent.shift()
    const bottleneck = bottleneckOf(recent)
    options.onBottleneck?.(bottleneck)
    options.append({ kind: "step.account", step, ...(bottleneck === null ? {} : { reason: bottleneck.advice }), data: { ...account, bottleneck: bottleneck?.part ?? null, share: bottleneck?.share ?? 0 } })
    return account
  }
}

function recordTrained(options: LoopOptions, group: SampleGroup, version: number): void {
  options.append({
    kind: "group.trained",
    step: version + 1,
    version,
    groupId: group.id,
    occurrence: group.occurrence,
    data: { oldestVersion: group.oldestVersion, trainedTokens: group.trainedTokens, rewardMean: group.rewardMean, samples: group.samples.length },
  })
}

/** Pushes the weights. Servers that cannot take them keep the old ones, which the next step's staleness shows; none at all ends the run. */
async function publish(options: LoopOptions, version: number): Promise<SyncReport & { readonly wallSeconds: number }> {
  const { transfer, append, signal, config, clock } = options
  const start = clock.now()
  try {
    // An interrupted run still finishes its push: stopping half-way would leave servers paused.
    const deadline = { clock, timeoutMs: config.transfer.timeoutMs, signal: new AbortController().signal, what: `publishing version ${version}` }
    const { seconds, pausedSeconds, bytes, servers } = await withDeadline(deadline, (bounded) => transfer.push(version, bounded))
    const report: SyncReport = { version, seconds, pausedSeconds, bytes }
    for (const server of servers) if (!server.ok) options.onUpdate({ kind: "warning", message: `${server.name} did not take version ${version}: ${server.error ?? "no reason given"}` })
    append({ kind: "weights.pushed", version, data: { seconds, pausedSeconds, bytes } })
    options.onSync(report)
    options.onUpdate({ kind: "sync", report })
    return { ...report, wallSeconds: (clock.now() - start) / 1000 }
  } catch (error) {
    append({ kind: "weights.failed", version, reason: messageOf(error) })
    if (signal.aborted) return { version, seconds: 0, pausedSeconds: 0, bytes: 0, wallSeconds: (clock.now() - start) / 1000 }
    throw error
  }
}
