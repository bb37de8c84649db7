// One optimizer step: a window of groups becomes advantages, micro-batches with what the objective compares them to, passes and updates.
import { type BatchFacts, type MicroBatch, windowTotals } from "@cohort/batching"
import { addMetrics, EMPTY_METRICS, meanOfPasses, objectiveDemands, type ObjectiveMetrics, topEntropy } from "@cohort/loss"
import { learningRate } from "@cohort/model"
import type { SampleGroup } from "@cohort/rollout"
import { klOfRollouts } from "./kl-penalty.ts"
import type { LoopOptions } from "./loop.ts"
import { objectiveOf, windowSamples } from "./objective.ts"

export interface TrainedWindow {
  readonly skipped: boolean
  readonly gradNorm: number
  readonly learningRate: number
  /** Mean over the passes. */
  readonly metrics: ObjectiveMetrics
  readonly samples: number
  readonly seconds: number
  readonly batch: BatchFacts
  /** Mean KL that was taken off the rewards, before its coefficient; undefined where none is. */
  readonly klPerCompletion: number | undefined
}

/** Trains on the groups, all passes of the config. A gradient that is not finite ends it with `skipped`. */
export async function trainWindow(options: LoopOptions, groups: readonly SampleGroup[]): Promise<TrainedWindow> {
  const { config, backend, clock, progress } = options
  const start = clock.now()
  const kl = objectiveDemands(config.objective).referenceInReward ? await klOfRollouts(options, groups) : undefined
  const samples = windowSamples(config, groups, { rewards: options.rewards, kl })
  const { microBatches, kept, droppedOverBudget, facts } = options.planner.plan(samples, progress.step)
  for (const sample of droppedOverBudget)
    options.append({ kind: "sample.dropped", step: progress.step + 1, groupId: sample.groupId, reason: "over_token_budget", data: { tokens: sample.tokenIds.length } })
  const totals = windowTotals(kept)
  const batches = await withOwnLogProbs(options, microBatches)
  const rate = learningRate({ kind: config.train.schedule, peak: config.train.learningRate, warmupSteps: config.train.warmupSteps, totalSteps: config.train.steps }, progress.step)
  let metrics = EMPTY_METRICS
  let gradNorm = 0
  let skipped = false
  let passes = 0
  while (passes < config.train.iterations && !skipped) {
    // Of the policy as this pass finds it.
    const spec = objectiveOf(config, totals, progress.entropy, await topEntropyOf(options, batches))
    let pass = EMPTY_METRICS
    for (const batch of batches) pass = addMetrics(pass, await backend.forwardBackward(batch, spec))
    const step = await backend.optimStep({ learningRate: rate, maxGradNorm: config.train.maxGradNorm })
    if (step.skipped && passes > 0) {
      // The window is trained all the same: the passes before this one stay.
      options.onUpdate({ kind: "warning", message: `step ${progress.step + 1}: the gradient of pass ${passes + 1} of ${config.train.iterations} is not finite; the passes before it stay` })
      break
    }
    metrics = addMetrics(metrics, pass)
    gradNorm = step.gradNorm
    skipped = step.skipped
    passes++
  }
  return { skipped, gradNorm, learningRate: rate, metrics: meanOfPasses(metrics, passes), samples: kept.length, seconds: (clock.now() - start) / 1000, batch: facts, klPerCompletion: kl === undefined ? undefined : meanOf(kl) }
}

/** Adds what the objective compares with: log-probs of the reference policy, and the trainer's own before the step. */
async function withOwnLogProbs({ config, backend }: LoopOptions, batches: readonly MicroBatch[]): Promise<readonly MicroBatch[]> {
  const demands = objectiveDemands(config.objective)
  const flat = async (batch: MicroBatch, which: "policy" | "reference"): Promise<Float32Array> => {
    const out = new Float32Array(batch.rows * batch.length)
    for (const [row, values] of (await backend.logProbs(batch, which, config.rollout.temperature)).entries()) out.set(values, row * batch.length)
    return out
  }
  const complete: MicroBatch[] = []
  for (const batch of batches)
    complete.push({
      ...batch,
      ...(demands.referenceInLoss ? { referenceLogProbs: await flat(batch, "reference") } : {}),
      ...(demands.proximal ? { proximalLogProbs: await flat(batch, "policy") } : {}),
    })
  return complete
}

/** Where the config trains the most uncertain tokens only: from which entropy on, over the whole window. Not of a window without a trained token. */
async function topEntropyOf({ config, backend }: LoopOptions, batches: readonly MicroBatch[]): Promise<ReturnType<typeof topEntropy> | undefined> {
  if (!objectiveDemands(config.objective).windowEntropies) return undefined
  const trained: number[] = []
  for (const batch of batches)
    for (const [row, values] of (await backend.entropies(batch, config.rollout.temperature)).entries())
      for (const [at, value] of values.entries()) if (batch.lossMask[row * batch.length + at] === 1) trained.push(value)
  return trained.length === 0 ? undefined : topEntropy(trained, config.objective.topEntropyShare)
}

function meanOf(values: ReadonlyMap<string, number>): number | undefined {
  return values.size === 0 ? undefined : values.values().reduce((sum, value) => sum + value, 0) / values.size
}
