// The micro-batches of each optimizer step of a run. It remembers which shapes were used, since the first use of a shape compiles it, and
// takes to a new one only when what it would have saved so far pays for that.
import { candidateShapes, LONGEST_PACKED } from "./candidates.ts"
import { collate } from "./collate.ts"
import { collatePacked } from "./collate-packed.ts"
import type { BatchFacts } from "./definitions.ts"
import { type BatchShape, bucketLadder, longestInputs } from "./ladder.ts"
import { likelySteps } from "./likely-steps.ts"
import { createPacker, packStats, SAMPLES_PER_ROW } from "./pack.ts"
import { type CostModel, coverCost, DEFAULT_COST, planBatches } from "./plan.ts"
import { inputTokens, type MicroBatch, type Sample } from "./sample.ts"

export interface StepPlannerOptions {
  /** Longest sample that may be trained: prompt and completion tokens. */
  readonly maxLength: number
  /** Most tokens that a micro-batch forwards, padding included. Give this or `samplesPerBatch`. */
  readonly tokenBudget?: number
  /** A fixed number of samples a micro-batch, whatever their length; each has a row. */
  readonly samplesPerBatch?: number
  /** Samples of a step at most. */
  readonly samplesPerStep: number
  /** `auto` takes packed rows where they are cheaper, `rows` gives each sample a row of its own. */
  readonly packing: "auto" | "packed" | "rows"
  readonly cost?: CostModel
  /**
   * Parts of a micro-batch that are computed side by side: shapes have a multiple of so many rows, or of as many as the budget holds of the longest
   * samples. 1 when absent; does not change `samplesPerBatch`.
   */
  readonly lanes?: number
  /** Most shapes of the whole run; 8 when absent. */
  readonly maxShapes?: number
}

export interface StepPlan {
  readonly microBatches: readonly MicroBatch[]
  /** Samples that are trained: those of the micro-batches. */
  readonly kept: readonly Sample[]
  /** Longer than anything the budget holds: to be counted and reported by the caller. */
  readonly droppedOverBudget: readonly Sample[]
  readonly packed: boolean
  /** Whether common starts of groups are forwarded once. */
  readonly shared: boolean
  readonly facts: BatchFacts
}

export interface StepPlanner {
  /** Longest sample that is trained, tokens. */
  readonly longest: number
  /** Plans the samples of a step: whole groups. `version` is the policy version being trained, for figures by age. */
  plan(samples: readonly Sample[], version?: number): StepPlan
}

/** Packed rows and single ones of the same size are two compiled steps. */
interface Shape extends BatchShape {
  readonly packed: boolean
}

const nameOf = ({ packed, rows, length }: Shape): string => `${packed ? "packed" : "rows"} ${rows}x${length}`

/** Shapes this close to the cheapest count as equal, so that runs alike find theirs in the compiler's cache. */
const TOLERANCE = 1.02

/**
 * Plans the steps of one run; keeps state between them. Every sample within the budget is in exactly one row of one micro-batch, and a step has all
 * samples of its groups. At most `maxShapes` shapes are used over the run, and one of them holds the longest sample allowed.
 *
 * A new shape is taken when the padding it would have saved, summed over the steps that did without it, reaches the cost of compiling it (as one buys
 * skis when the rent paid reaches their price: never more than twice what foresight would have spent).
 *
 * @throws CohortError `config_invalid` when there is not exactly one limit, or one is no positive integer.
 * @example
 * const planner = createStepPlanner({ maxLength: 1024, tokenBudget: 8192, samplesPerStep: 256, packing: "auto" })
 * const { microBatches, facts } = planner.plan(samples, version)
 */
export function createStepPlanner(options: StepPlannerOptions): StepPlanner {
  const { packing, maxShapes = 8 } = options
  const cost = options.cost ?? DEFAULT_COST
  const fixed = options.samplesPerBatch !== undefined
  const lanes = lanesThatFit(options)
  const limits = limitsOf(options, lanes)
  const longest = bucketLadder({ ...limits, maxShapes: 1 }).at(-1)!.length
  const candidates = (packed: boolean): readonly Shape[] => candidateShapes({ ...limits, packed, lanes }).map((shape) => ({ ...shape, packed }))
  const pool = [...(packing === "packed" && !fixed ? [] : candidates(false)), ...(packing === "rows" || fixed ? [] : candidates(true))]
  const used: Shape[] = []
  let owed = 0

  /**
   * Shapes that may still be added: the last one must hold the longest sample allowed, unless one does already. Rows far longer than the samples at hand
   * are not looked at: full rows need no more, and attention grows with the square.
   */
  function addable(longestNow: number): readonly Shape[] {
    if (used.length >= maxShapes) return []
    const covered = used.some(({ length }) => length >= longest)
    const names = new Set(used.map(nameOf))
    const far = Math.max(LONGEST_PACKED, 2 * longestNow)
    return pool.filter((shape) => !names.has(nameOf(shape)) && (shape.length <= far || !shape.packed || !covered) && (covered || used.length < maxShapes - 1 || shape.length >= longest))
  }

  /** The shapes that this step may use; the cheapest cut into them is made afterwards. */
  function choose(samples: readonly Sample[], cutter: Cutter): readonly Shape[] {
    const current = cutter.costOf(used)
    const shapes = addable(cutter.longest)
    // The pool covers every length that is allowed, so there is one.
    if (current === Infinity) return [...used, best(samples, cutter, shapes)]
    const costs = shapes.map((shape) => cutter.costOf([...used, shape]))
    const least = Math.min(...costs)
    if (least >= current) return used
    owed += current - least
    if (owed < cost.perShape) return used
    owed = 0
    return [...used, best(samples, cutter, shapes.filter((_, index) => costs[index]! < current))]
  }

  /** The shape that costs least over this step and those that are likely to follow. */
  function best(samples: readonly Sample[], cutter: Cutter, shapes: readonly Shape[]): Shape {
    const cutters = [cutter, ...likelySteps(samples).map((step) => createCutter(step, cost, undefined))]
    const costs = shapes.map((shape) => cutters.reduce((sum, each) => sum + each.costOf([...used, shape]), 0))
    const least = Math.min(...costs)
    const close = shapes.filter((_, index) => costs[index]! <= least * TOLERANCE)
    return close.reduce((largest, shape) => (sizeOf(shape) > sizeOf(largest) ? shape : largest))
  }

  return {
    longest: longest + 1,
    plan(samples, version) {
      const kept = samples.filter((sample) => inputTokens(sample) <= longest)
      const droppedOverBudget = samples.filter((sample) => inputTokens(sample) > longest)
      const cutter = createCutter(kept, cost, version)
      const cut = cutter.cut(kept.length === 0 ? [] : choose(kept, cutter))
      const names = new Set(used.map(nameOf))
      for (const shape of cut.shapes) if (!names.has(nameOf(shape))) used.push(shape)
      return { ...cut, kept, droppedOverBudget, facts: factsOf(cut, kept, droppedOverBudget.length) }
    },
  }
}

interface Cut {
  readonly microBatches: readonly MicroBatch[]
  readonly packed: boolean
  readonly shared: boolean
  readonly shapes: readonly Shape[]
  readonly imbalance: number
}

/** Cuts the samples of a step into shapes, packed or not as is cheaper. */
interface Cutter {
  /** Forwarded tokens of the longest sample. */
  readonly longest: number
  /** Infinity where the shapes do not hold the longest sample. */
  costOf(shapes: readonly Shape[]): number
  cut(shapes: readonly Shape[]): Cut
}

function createCutter(samples: readonly Sample[], cost: CostModel, version: number | undefined): Cutter {
  const packer = createPacker(samples, { share: "auto", samplesPerRow: SAMPLES_PER_ROW, cost })
  const lengths = samples.map(inputTokens).toSorted((a, b) => b - a)
  const costs = (shapes: readonly Shape[]): { readonly rows: number; readonly packed: number } => ({
    rows: coverCost(lengths, shapes.filter(({ packed }) => !packed), cost),
    packed: packer.costOf(shapes.filter(({ packed }) => packed)),
  })
  return {
    longest: lengths[0] ?? 0,
    costOf(shapes) {
      const { rows, packed } = costs(shapes)
      return Math.min(rows, packed)
    },
    cut(shapes) {
      const { rows, packed } = costs(shapes)
      // Batches hold the very shapes that were given.
      const taken = (batches: readonly { readonly shape: BatchShape }[]): readonly Shape[] => shapes.filter((shape) => batches.some((batch) => batch.shape === shape))
      if (packed < rows) {
        const { batches, shared } = packer.pack(shapes.filter((shape) => shape.packed))
        return { packed: true, shared, shapes: taken(batches), imbalance: packStats(batches, 0).imbalance, microBatches: batches.map((batch) => collatePacked(batch, SAMPLES_PER_ROW, { version })) }
      }
      const { batches, stats } = planBatches(samples, { buckets: shapes.filter((shape) => !shape.packed), cost })
      return { packed: false, shared: false, shapes: taken(batches), imbalance: stats.imbalance, microBatches: batches.map(({ samples: members, shape }) => collate(members, shape, { version })) }
    },
  }
}

const sizeOf = ({ rows, length }: BatchShape): number => rows * length

/** A sample of the greatest length in each of them stays within the budget: nothing is dropped for their sake. */
function lanesThatFit({ lanes = 1, maxLength, tokenBudget }: StepPlannerOptions): number {
  return tokenBudget === undefined ? 1 : Math.min(lanes, rowsOfLongest(maxLength, tokenBudget))
}

/** Samples of `maxLength` tokens that a micro-batch of `tokenBudget` holds in a row each; 1 where it holds none whole. */
export function rowsOfLongest(maxLength: number, tokenBudget: number): number {
  return Math.max(1, Math.floor(tokenBudget / longestInputs({ maxLength })))
}

/** Limits of the part of a micro-batch that one lane computes. */
function limitsOf({ maxLength, tokenBudget, samplesPerBatch, samplesPerStep }: StepPlannerOptions, lanes: number) {
  return {
    maxLength,
    samplesPerStep: Math.ceil(samplesPerStep / lanes),
    ...(tokenBudget === undefined ? {} : { tokenBudget: Math.floor(tokenBudget / lanes) }),
    ...(samplesPerBatch === undefined ? {} : { rowsPerBatch: samplesPerBatch }),
  }
}

function factsOf({ microBatches, imbalance }: Cut, kept: readonly Sample[], droppedOverBudget: number): BatchFacts {
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
  return {
    batches: microBatches.length,
    samples: kept.length,
    groups: new Set(kept.map(({ groupId }) => groupId)).size,
    trainedTokens: sum(microBatches.map(({ trainedTokens }) => trainedTokens)),
    forwardedTokens: sum(microBatches.map((batch) => batch.forwardedTokens)),
    realTokens: sum(kept.map(({ tokenIds }) => tokenIds.length)),
    paddedTokens: sum(microBatches.map(sizeOf)),
    imbalance,
    droppedOverBudget,
  }
}
