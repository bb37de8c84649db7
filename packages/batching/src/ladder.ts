// The few (rows, length) shapes that batches may have: every distinct shape is one compiled training step.
import { CohortError } from "@cohort/errors"

/** Shape of a micro-batch; padding fills what the samples leave. */
export interface BatchShape {
  readonly rows: number
  readonly length: number
}

export interface LadderOptions {
  /** Longest sample that may be trained: prompt and completion tokens. A shape holds it where it is as long as all of them but the last. */
  readonly maxLength: number
  /** Limit of rows * length, so of memory. Give this or `rowsPerBatch`. */
  readonly tokenBudget?: number
  /** A fixed number of rows whatever their length, without a token limit. */
  readonly rowsPerBatch?: number
  /** Samples of one optimizer step: no shape has more rows, since they could only be padding. */
  readonly samplesPerStep?: number
  readonly maxRows?: number
  /** Shortest length of a shape; 16 when absent. */
  readonly minLength?: number
  /** Most shapes of the ladder; 8 when absent. */
  readonly maxShapes?: number
}

/** Lengths are multiples of it, and short ones, where it would be much padding, of the other. */
const LENGTH_STEP = { long: 8, short: 4 }
const SHORT_BELOW = 256
/** Neighbouring lengths differ by at least this factor: closer ones save less padding than their compilation costs. */
const SMALLEST_RATIO = 1.25

/** The next length that vectorised kernels like. */
export function roundLength(length: number): number {
  const step = length <= SHORT_BELOW ? LENGTH_STEP.short : LENGTH_STEP.long
  return Math.ceil(length / step) * step
}

/** Tokens that rows must have room for, within the budget: those of the longest sample. */
export const longestInputs = ({ maxLength, tokenBudget = Infinity }: Pick<LadderOptions, "maxLength" | "tokenBudget">): number => Math.min(tokenBudget, Math.max(1, maxLength - 1))

/**
 * Shapes in ascending length, with lengths in a geometric series from `minLength` to the longest trainable sample and as many
 * rows as the budget allows. A sample longer than the last shape is dropped by the planner, never run over the budget.
 *
 * @throws CohortError `config_invalid` when a limit is not a positive integer, or both or neither of the two limits are given.
 * @example
 * bucketLadder({ maxLength: 16, tokenBudget: 4096, samplesPerStep: 256 }) // [{ rows: 256, length: 16 }]
 */
export function bucketLadder(options: LadderOptions): BatchShape[] {
  requirePositive(options)
  const { tokenBudget } = options
  return ladderShapes(ladderLengths(longestInputs(options), options.minLength ?? 16, options.maxShapes ?? 8, tokenBudget), options)
}

/** Gives each length as many rows as the options allow. */
export function ladderShapes(lengths: readonly number[], options: LadderOptions): BatchShape[] {
  const { tokenBudget, rowsPerBatch } = options
  const rowLimit = Math.min(options.samplesPerStep ?? Infinity, options.maxRows ?? Infinity)
  return lengths.map((length) => ({
    rows: Math.max(1, Math.min(rowLimit, tokenBudget === undefined ? rowsPerBatch! : Math.floor(tokenBudget / length))),
    length,
  }))
}

function ladderLengths(longest: number, minLength: number, maxShapes: number, tokenBudget: number | undefined): number[] {
  // Rounding up must not lift the last shape over the budget.
  const last = tokenBudget === undefined || roundLength(longest) <= tokenBudget ? roundLength(longest) : longest
  const first = Math.min(roundLength(minLength), last)
  const steps = Math.min(maxShapes - 1, Math.floor(Math.log(last / first) / Math.log(SMALLEST_RATIO) + 1e-9))
  const lengths = new Set<number>([last])
  for (let step = 0; step < steps; step++) lengths.add(Math.min(last, roundLength(first * (last / first) ** (step / steps))))
  return [...lengths].toSorted((a, b) => a - b)
}

function requirePositive(options: LadderOptions): void {
  for (const [field, value] of Object.entries(options))
    if (!Number.isInteger(value) || value < 1)
      throw new CohortError("config_invalid", `${field} is ${value}`, {
        hint: `Give ${field} a whole number of at least 1, or leave it out.`,
        details: { field, value },
      })
  if ((options.tokenBudget === undefined) === (options.rowsPerBatch === undefined))
    throw new CohortError("config_invalid", "a ladder needs exactly one of tokenBudget and rowsPerBatch", {
      hint: "tokenBudget limits memory; rowsPerBatch fixes the number of samples.",
    })
}
