// Rows for several trainer workers: each micro-batch gives every worker one row of at most the token budget, and all of them the same attention cost.
import { CohortError } from "@cohort/errors"
import { RowHeap } from "./row-heap.ts"

export interface WorkerOptions {
  readonly workers: number
  /** Most tokens of a row. Give this or `samplesPerRow`. */
  readonly tokenBudget?: number
  /** A fixed number of samples a row, whatever their length. */
  readonly samplesPerRow?: number
}

export interface WorkerPlan<S> {
  /** Micro-batches of one row per worker. With fewer samples than workers the last rows of the only micro-batch are empty. */
  readonly batches: readonly (readonly (readonly S[])[])[]
  readonly droppedOverBudget: readonly S[]
  /** Largest sum of squared lengths of a micro-batch's rows over their mean, averaged over micro-batches; 1 is perfect. */
  readonly imbalance: number
}

/**
 * Longest sample first, each to the row with the smallest sum of squared lengths that has room; rows of like load then form a micro-batch. All samples are
 * known, as those of an optimizer step are, so rows are both fuller and more even than those filled as samples arrive.
 *
 * @throws CohortError `config_invalid` when there is not exactly one limit, or one is no positive integer.
 * @example
 * workerRows(samples, { workers: 8, tokenBudget: 16384 }).batches[0] // 8 rows
 */
export function workerRows<S extends { readonly tokenIds: { readonly length: number } }>(samples: readonly S[], options: WorkerOptions): WorkerPlan<S> {
  requireLimits(options)
  const { workers, tokenBudget = Infinity, samplesPerRow = Infinity } = options
  const { order, lengths, dropped, tokens } = sortDown(samples, tokenBudget)
  const needed = Math.max(Math.ceil(tokens / tokenBudget), Math.ceil(order.length / samplesPerRow), order.length > 0 ? 1 : 0)
  const heap = new RowHeap(Math.ceil(needed / workers) * workers, tokenBudget, samplesPerRow)
  const rowOf = new Int32Array(order.length)
  for (let index = 0; index < order.length; index++) {
    const length = lengths[order[index]!]!
    let row = heap.place(length)
    if (row === -1) {
      heap.open(workers)
      row = heap.place(length)
    }
    rowOf[index] = row
  }
  const rows = Array.from({ length: heap.rows }, (_, index): Row<S> => ({ samples: [], load: heap.loads[index]! }))
  for (let index = 0; index < order.length; index++) rows[rowOf[index]!]!.samples.push(samples[order[index]!]!)
  rows.sort((a, b) => b.load - a.load)
  fillEmpty(rows)
  const batches = Array.from({ length: rows.length / workers }, (_, index) => rows.slice(index * workers, (index + 1) * workers))
  const used = batches.filter((batch) => batch.some((row) => row.samples.length > 0))
  const imbalances = used.map((batch) => (Math.max(...batch.map(({ load }) => load)) * workers) / batch.reduce((sum, { load }) => sum + load, 0))
  return {
    batches: used.map((batch) => batch.map((row) => row.samples)),
    droppedOverBudget: dropped,
    imbalance: imbalances.length === 0 ? 1 : imbalances.reduce((sum, value) => sum + value, 0) / imbalances.length,
  }
}

interface Row<S> {
  readonly samples: S[]
  load: number
}

/** Places of the samples by length, longest first, by counting: lengths are small numbers. */
function sortDown<S extends { readonly tokenIds: { readonly length: number } }>(samples: readonly S[], budget: number): { order: Int32Array; lengths: Int32Array; dropped: S[]; tokens: number } {
  const lengths = new Int32Array(samples.length)
  const dropped: S[] = []
  let longest = 0
  let tokens = 0
  for (let index = 0; index < samples.length; index++) {
    const { length } = samples[index]!.tokenIds
    if (length > budget) {
      dropped.push(samples[index]!)
      lengths[index] = -1
      continue
    }
    lengths[index] = length
    tokens += length
    if (length > longest) longest = length
  }
  const starts = new Int32Array(longest + 2)
  for (let index = 0; index < lengths.length; index++) if (lengths[index]! >= 0) starts[longest - lengths[index]! + 1]!++
  for (let index = 1; index < starts.length; index++) starts[index]! += starts[index - 1]!
  const order = new Int32Array(samples.length - dropped.length)
  for (let index = 0; index < lengths.length; index++) if (lengths[index]! >= 0) order[starts[longest - lengths[index]!]!++] = index
  return { order, lengths, dropped, tokens }
}

/** A worker without a row would leave the others waiting: an empty one takes a sample of a row that has several. */
function fillEmpty<S extends { readonly tokenIds: { readonly length: number } }>(rows: Row<S>[]): void {
  for (const empty of rows) {
    if (empty.samples.length > 0) continue
    const donor = rows.find((row) => row.samples.length > 1)
    if (donor === undefined) return
    const sample = donor.samples.pop()!
    const { length } = sample.tokenIds
    donor.load -= length ** 2
    empty.samples.push(sample)
    empty.load = length ** 2
  }
}

function requireLimits(options: WorkerOptions): void {
  for (const [field, value] of Object.entries(options))
    if (!Number.isInteger(value) || value < 1) throw new CohortError("config_invalid", `${field} is ${value}`, { hint: `Give ${field} a whole number of at least 1.`, details: { field, value } })
  if ((options.tokenBudget === undefined) === (options.samplesPerRow === undefined))
    throw new CohortError("config_invalid", "rows of workers need exactly one of tokenBudget and samplesPerRow", { hint: "tokenBudget limits memory; samplesPerRow fixes the number of samples." })
}
