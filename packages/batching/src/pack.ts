// Rows that hold several samples: best-fit decreasing of sample trees into rows of one length.
import type { BatchShape } from "./ladder.ts"
import { type CostModel, coverCost, cutIntoBatches, DEFAULT_COST } from "./plan.ts"
import { createRooms } from "./rooms.ts"
import { inputTokens, type Sample } from "./sample.ts"
import { cutGroups, type Extent, neededLength, type Packable, type SampleTree, sharingGroups, treeOf } from "./tree.ts"

export interface PackOptions {
  /** Shapes a batch may have; rows are packed to the length of one of them. */
  readonly buckets: readonly BatchShape[]
  /** "auto" forwards common starts once where the plan gets cheaper for it. */
  readonly share?: "auto" | "never" | "always"
  /** Most samples of a row; fixes the shape of per-sequence sums in a compiled step. {@link SAMPLES_PER_ROW} when absent. */
  readonly samplesPerRow?: number
  readonly cost?: CostModel
}

/** One row: trees after another. */
export interface PackedRow<S extends Packable = Sample> extends Extent {
  readonly trees: readonly SampleTree<S>[]
}

export interface PackedBatch<S extends Packable = Sample> {
  readonly shape: BatchShape
  readonly rows: readonly PackedRow<S>[]
}

export interface PackStats {
  readonly batches: number
  readonly shapes: number
  readonly rows: number
  readonly samples: number
  /** Tokens of all samples, prompts included, as if nothing were shared. */
  readonly realTokens: number
  /** Tokens forwarded: those of all samples but their last, less those that a trunk spares. */
  readonly forwardedTokens: number
  /** rows * length over all batches. */
  readonly paddedTokens: number
  /** 1 - forwarded / padded; 0 for an empty plan. */
  readonly padFraction: number
  /** Largest attention cost of a row over the mean of its batch's rows that hold samples, at worst over all batches; 1 is perfect. */
  readonly imbalance: number
  readonly droppedOverBudget: number
}

export interface PackedPlan<S extends Packable = Sample> {
  readonly batches: readonly PackedBatch<S>[]
  readonly droppedOverBudget: readonly S[]
  /** Whether common starts are forwarded once. */
  readonly shared: boolean
  readonly samplesPerRow: number
  readonly stats: PackStats
}

/**
 * Plans one optimizer step with packed rows. Every sample that fits the longest shape is in exactly one row of one batch; no batch is without samples.
 * Each ladder length that holds the longest sample is tried as the row length, with and without sharing, and the cheapest plan is taken: padded tokens,
 * attention over the row's length, and the fixed cost of a batch.
 *
 * @example
 * const plan = planPacked(samples, { buckets: bucketLadder({ maxLength: 1024, tokenBudget: 8192 }) })
 * const batches = plan.batches.map((batch) => collatePacked(batch, plan.samplesPerRow))
 */
export function planPacked<S extends Packable>(samples: readonly S[], options: PackOptions): PackedPlan<S> {
  const longestShape = Math.max(0, ...options.buckets.map(({ length }) => length))
  const kept = samples.filter((sample) => inputTokens(sample) <= longestShape)
  const droppedOverBudget = samples.filter((sample) => inputTokens(sample) > longestShape)
  const samplesPerRow = options.samplesPerRow ?? SAMPLES_PER_ROW
  const packer = createPacker(kept, { share: options.share ?? "auto", samplesPerRow, cost: options.cost ?? DEFAULT_COST })
  const { batches, shared } = packer.pack(options.buckets)
  return { batches, droppedOverBudget, shared, samplesPerRow, stats: packStats(batches, droppedOverBudget.length) }
}

/** Most samples of a row where nothing else is said. */
export const SAMPLES_PER_ROW = 32

export interface Packer<S extends Packable> {
  /** Cost in tokens of the cheapest packing into `shapes`; Infinity where none holds the longest sample. */
  costOf(shapes: readonly BatchShape[]): number
  /** That packing. */
  pack(shapes: readonly BatchShape[]): { readonly batches: readonly PackedBatch<S>[]; readonly shared: boolean }
}

/** Packs the same samples into different sets of shapes: rows are made once per length. */
export function createPacker<S extends Packable>(samples: readonly S[], { share, samplesPerRow, cost }: Required<Pick<PackOptions, "share" | "samplesPerRow" | "cost">>): Packer<S> {
  const sorted = samples.toSorted((a, b) => b.tokenIds.length - a.tokenIds.length || (a.id < b.id ? -1 : 1))
  const longest = sorted[0] === undefined ? 0 : inputTokens(sorted[0])
  const sharings = share === "auto" ? [true, false] : [share === "always"]
  interface Made {
    readonly rows: readonly PackedRow<S>[]
    readonly lengths: readonly number[]
    readonly shared: boolean
  }
  const made = new Map<number, readonly Made[]>()
  const groups = sharings.includes(true) ? sharingGroups(sorted) : []
  const single = sorted.map((sample) => treeOf(0, [sample]))
  const rowsOf = (length: number): readonly Made[] => {
    let found = made.get(length)
    if (found === undefined)
      made.set(length, (found = sharings.map((shared) => {
        const rows = packRows(shared ? cutGroups(groups, length, samplesPerRow) : single, length, samplesPerRow)
        return { rows, shared, lengths: rows.map(neededLength).toSorted((a, b) => b - a) }
      })))
    return found
  }
  const cheapest = (shapes: readonly BatchShape[]): { readonly made: Made | undefined; readonly cost: number } => {
    let best: { readonly made: Made | undefined; readonly cost: number } = { made: undefined, cost: Infinity }
    for (const length of new Set(shapes.map((shape) => shape.length).toSorted((a, b) => a - b))) {
      if (length < longest) continue
      for (const candidate of rowsOf(length)) {
        const total = coverCost(candidate.lengths, shapes, cost)
        if (total < best.cost) best = { made: candidate, cost: total }
      }
    }
    return best
  }
  return {
    costOf: (shapes) => cheapest(shapes).cost,
    pack(shapes) {
      const { rows = [], shared = false } = cheapest(shapes).made ?? {}
      return { batches: batchRows(rows, shapes, cost), shared: shared && rows.some(({ trees }) => trees.some((tree) => tree.shared > 0)) }
    },
  }
}

/** Largest tree first, each to the row with the least room that still takes it: room for whichever there is more of, tokens or predictions. */
export function packRows<S extends Packable>(trees: readonly SampleTree<S>[], length: number, samplesPerRow: number): PackedRow<S>[] {
  const total = (name: keyof Extent): number => trees.reduce((sum, tree) => sum + tree[name], 0)
  const [most, other] = total("tokens") >= total("predictions") ? (["tokens", "predictions"] as const) : (["predictions", "tokens"] as const)
  const rows: { trees: SampleTree<S>[]; tokens: number; predictions: number; samples: number }[] = []
  const open = createRooms(length)
  for (const tree of trees.toSorted((a, b) => neededLength(b) - neededLength(a))) {
    const suits = (candidate: number): boolean => rows[candidate]!.samples + tree.samples.length <= samplesPerRow && rows[candidate]![other] + tree[other] <= length
    const index = open.take(tree[most], suits) ?? rows.push({ trees: [], tokens: 0, predictions: 0, samples: 0 }) - 1
    const row = rows[index]!
    row.trees.push(tree)
    row.tokens += tree.tokens
    row.predictions += tree.predictions
    row.samples += tree.samples.length
    if (row.samples < samplesPerRow) open.put(index, length - row[most])
  }
  return rows
}

/** Rows into batches, by the planner of whole rows: it only needs their lengths. */
function batchRows<S extends Packable>(rows: readonly PackedRow<S>[], shapes: readonly BatchShape[], cost: CostModel): PackedBatch<S>[] {
  const named = rows.map((row, index) => ({ id: String(index), row }))
  return cutIntoBatches(named, ({ row }) => neededLength(row), { buckets: shapes, cost }).map(({ shape, members }) => ({ shape, rows: members.map(({ row }) => row) }))
}

/** Keys that the tokens of a row attend to in all: what attention costs without padding. */
function attentionCost({ trees }: PackedRow<Packable>): number {
  const upTo = (n: number): number => (n * (n + 1)) / 2
  return trees.reduce((sum, { shared, samples }) => sum + upTo(shared) + samples.reduce((inner, sample) => inner + upTo(inputTokens(sample)) - upTo(shared), 0), 0)
}

export function packStats(batches: readonly PackedBatch<Packable>[], droppedOverBudget: number): PackStats {
  const rows = batches.flatMap((batch) => batch.rows)
  const samples = rows.flatMap(({ trees }) => trees.flatMap((tree) => tree.samples))
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
  const forwardedTokens = sum(rows.map(({ tokens }) => tokens))
  const paddedTokens = sum(batches.map(({ shape }) => shape.rows * shape.length))
  const imbalances = batches.map((batch) => {
    const costs = batch.rows.map(attentionCost)
    // Samples of one token cost nothing.
    return sum(costs) === 0 ? 1 : (Math.max(...costs) * costs.length) / sum(costs)
  })
  return {
    batches: batches.length,
    shapes: new Set(batches.map(({ shape }) => shape)).size,
    rows: rows.length,
    samples: samples.length,
    realTokens: sum(samples.map(({ tokenIds }) => tokenIds.length)),
    forwardedTokens,
    paddedTokens,
    padFraction: paddedTokens === 0 ? 0 : 1 - forwardedTokens / paddedTokens,
    imbalance: imbalances.length === 0 ? 1 : Math.max(...imbalances),
    droppedOverBudget,
  }
}
