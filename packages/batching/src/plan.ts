// Cuts the samples of one optimizer step into micro-batches of the ladder's shapes at the least padded cost.
import { balanceBy } from "./balance.ts"
import type { BatchShape } from "./ladder.ts"
import { inputTokens, type Sample } from "./sample.ts"

export interface CostModel {
  /** Cost of attention beside the rest of a token's work: a token costs 1 + length / attentionLength. */
  readonly attentionLength: number
  /** Fixed cost of a micro-batch in tokens: call, metrics, gradient accumulation. */
  readonly perBatch: number
  /** Cost of the first use of a shape in tokens: its compilation. */
  readonly perShape: number
}

export interface PlanOptions {
  readonly buckets: readonly BatchShape[]
  readonly cost?: CostModel
}

export interface PlannedBatch<S extends Sized = Sample> {
  readonly shape: BatchShape
  readonly samples: readonly S[]
}

export interface PlanStats {
  readonly batches: number
  readonly shapes: number
  readonly samples: number
  /** Tokens of all samples, prompts included. */
  readonly realTokens: number
  /** Those that are forwarded: all but the last of each sample. */
  readonly forwardedTokens: number
  /** rows * length over all batches. */
  readonly paddedTokens: number
  /** 1 - forwarded / padded; 0 for an empty plan. */
  readonly padFraction: number
  /** Largest sum of squared forwarded lengths over the mean, among batches of the same shape; 1 is perfect. */
  readonly imbalance: number
  readonly droppedOverBudget: number
}

export interface Plan<S extends Sized = Sample> {
  readonly batches: readonly PlannedBatch<S>[]
  /** Longer than the longest shape: never trained, to be counted and reported by the caller. */
  readonly droppedOverBudget: readonly S[]
  readonly stats: PlanStats
}

/** What the planner reads of a sample. */
export interface Sized {
  readonly id: string
  readonly tokenIds: { readonly length: number }
}

export const DEFAULT_COST: CostModel = { attentionLength: 4096, perBatch: 64, perShape: 20_000 }

/** Cost of a micro-batch of a shape, however full, in tokens. */
export const batchCost = ({ rows, length }: BatchShape, { attentionLength, perBatch }: CostModel): number => rows * length * (1 + length / attentionLength) + perBatch

/**
 * Plans one optimizer step. Every sample that fits a shape is in exactly one row of one batch. The planner is given all
 * samples of the step, so a group is never split over steps, though micro-batches may split it: normalisation spans the step.
 * No batch is empty; without samples there is no batch. The order of `samples` does not matter.
 *
 * Samples sorted by length are cut into consecutive runs, each run into the shape that minimises the total padded cost (dynamic program over
 * the number of samples left); batches that got the same shape then share their samples so that sums of squared lengths are even.
 *
 * @example
 * const { batches, droppedOverBudget } = planBatches(samples, { buckets })
 * for (const { samples, shape } of batches) await backend.forwardBackward(collate(samples, shape), objective)
 */
export function planBatches<S extends Sized>(samples: readonly S[], options: PlanOptions): Plan<S> {
  const longest = Math.max(0, ...options.buckets.map(({ length }) => length))
  const droppedOverBudget = samples.filter((sample) => inputTokens(sample) > longest)
  const batches = cutIntoBatches(samples, inputTokens, options).map(({ shape, members }) => ({ shape, samples: members }))
  return { batches, droppedOverBudget, stats: statsOf(batches, droppedOverBudget.length) }
}

/** {@link planBatches} for anything that takes a row: those longer than the longest shape are left out. */
export function cutIntoBatches<T extends Named>(items: readonly T[], lengthOf: LengthOf<T>, { buckets, cost = DEFAULT_COST }: PlanOptions): { readonly shape: BatchShape; readonly members: readonly T[] }[] {
  const shapes = buckets.toSorted((a, b) => a.length - b.length)
  const sorted = sortByLength(items, lengthOf, shapes.at(-1)?.length ?? 0)
  const runs = cheapestRuns(sorted.map(lengthOf), shapes, cost)
  return [...Map.groupBy(runs, (run) => run.shape)].flatMap(([shape, sameShape]) => {
    const members = sameShape.flatMap(({ start, end }) => sorted.slice(start, end))
    return balanceBy(members, lengthOf, sameShape.length, shape.rows).map((part) => ({ shape, members: part }))
  })
}

type Named = Pick<Sized, "id">
type LengthOf<T> = (item: T) => number

/** Longest first; equal lengths by id, so that the plan does not depend on arrival order. */
function sortByLength<T extends Named>(items: readonly T[], lengthOf: LengthOf<T>, longest: number): T[] {
  const byLength = new Map<number, T[]>()
  for (const item of items) {
    const length = lengthOf(item)
    if (length > longest) continue
    const same = byLength.get(length)
    if (same === undefined) byLength.set(length, [item])
    else same.push(item)
  }
  const lengths = [...byLength.keys()].toSorted((a, b) => b - a)
  return lengths.flatMap((length) => byLength.get(length)!.toSorted((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)))
}

interface Run {
  readonly shape: BatchShape
  readonly start: number
  readonly end: number
}

/** Least total cost of covering lengths[start..] (longest first) by `shapes` (shortest first) for every start, from the end, and the shape that each start takes. */
function cover(lengths: readonly number[], shapes: readonly BatchShape[], cost: CostModel): { readonly best: Float64Array; readonly choice: Int32Array } {
  const costs = shapes.map((shape) => batchCost(shape, cost))
  const best = new Float64Array(lengths.length + 1)
  const choice = new Int32Array(lengths.length)
  for (let start = lengths.length - 1; start >= 0; start--) {
    const needed = lengths[start]!
    best[start] = Infinity
    for (let index = shapes.length - 1; index >= 0 && shapes[index]!.length >= needed; index--) {
      const total = costs[index]! + best[Math.min(start + shapes[index]!.rows, lengths.length)]!
      if (total < best[start]!) {
        best[start] = total
        choice[start] = index
      }
    }
  }
  return { best, choice }
}

/** Cost in tokens of the plan that {@link planBatches} makes for samples of these lengths, longest first; Infinity where no shape holds the longest. */
export function coverCost(lengths: readonly number[], shapes: readonly BatchShape[], cost: CostModel): number {
  // Most sets of shapes that a step planner asks about hold single rows or packed ones only.
  if (!shapes.some(({ length }) => length >= (lengths[0] ?? 0))) return lengths.length === 0 ? 0 : Infinity
  return cover(lengths, shapes.toSorted((a, b) => a.length - b.length), cost).best[0]!
}

/** @param lengths longest first */
function cheapestRuns(lengths: readonly number[], shapes: readonly BatchShape[], cost: CostModel): Run[] {
  const { choice } = cover(lengths, shapes, cost)
  const runs: Run[] = []
  for (let start = 0; start < lengths.length; ) {
    const shape = shapes[choice[start]!]!
    const end = Math.min(start + shape.rows, lengths.length)
    runs.push({ shape, start, end })
    start = end
  }
  return runs
}

function statsOf<S extends Sized>(batches: readonly PlannedBatch<S>[], dropped: number): PlanStats {
  let samples = 0
  let realTokens = 0
  let forwardedTokens = 0
  let paddedTokens = 0
  let imbalance = 1
  for (const [, sameShape] of Map.groupBy(batches, (batch) => batch.shape)) {
    let largest = 0
    let sum = 0
    for (const batch of sameShape) {
      let squares = 0
      for (const sample of batch.samples) {
        const inputs = inputTokens(sample)
        realTokens += sample.tokenIds.length
        forwardedTokens += inputs
        squares += inputs ** 2
      }
      samples += batch.samples.length
      paddedTokens += batch.shape.rows * batch.shape.length
      largest = Math.max(largest, squares)
      sum += squares
    }
    if (sum > 0) imbalance = Math.max(imbalance, (largest * sameShape.length) / sum)
  }
  const shapes = new Set(batches.map((batch) => batch.shape)).size
  const padFraction = paddedTokens === 0 ? 0 : 1 - forwardedTokens / paddedTokens
  return { batches: batches.length, shapes, samples, realTokens, forwardedTokens, paddedTokens, padFraction, imbalance, droppedOverBudget: dropped }
}
