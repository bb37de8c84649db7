// Draws one token per row inside a compiled program, by inverting the cumulative distribution in two levels: first a block of the
// vocabulary, then a token of the block. Two passes over the logits, no sort, one uniform per level.
// Shapes: B rows, V vocabulary, n blocks of m tokens.
import { scalar, type Tensor } from "@tensorflow/tfjs-core"
import { DType, type RawOps, type TensorRuntime } from "@cohort/tensor"
import { filled, float } from "./ops.ts"
import { excluded, truncate, type Truncation } from "./truncate.ts"
import { uniformPairs } from "./uniform.ts"

/** Which parts of sampling a program contains; each set is compiled when it is first asked for. */
export interface SamplingVariant {
  /** top-k, top-p, min-p. */
  readonly truncates: boolean
  readonly penalizes: boolean
  /** How many of the most likely tokens come back; 0 none. */
  readonly top: number
}

/** Settings of each row, [B]. */
export interface RowSettings {
  /** int32; with the position it decides the draw. */
  readonly seed: Tensor
  /** int32 position of the token that is fed. */
  readonly position: Tensor
  /** float32 1 / temperature, 1 for greedy rows. */
  readonly inverseTemperature: Tensor
  /** bool */
  readonly greedy: Tensor
  readonly truncation: Truncation | undefined
  /** float32 penalty, and the tokens seen so far as bool [B, V]. */
  readonly repetition: { readonly penalty: Tensor; readonly seen: Tensor } | undefined
}

export interface Draw {
  /** [B] int32 */
  readonly ids: Tensor
  /** [B] float32, under the distribution drawn from; for greedy rows that of temperature 1. */
  readonly logProbs: Tensor
  /** [B, top] */
  readonly topIds: Tensor | undefined
  readonly topLogProbs: Tensor | undefined
}

/** Blocks of the vocabulary: `count * size >= vocabSize`, near its square root, without padding where a divisor allows it. */
export function vocabularyBlocks(vocabSize: number): { readonly count: number; readonly size: number } {
  const root = Math.ceil(Math.sqrt(vocabSize))
  for (let size = root; size <= root * 8 && size <= vocabSize; size++) if (vocabSize % size === 0) return { count: vocabSize / size, size }
  const size = Math.ceil(root / 16) * 16
  return { count: Math.ceil(vocabSize / size), size }
}

/** @param logits_BV float32 */
export function sampleRows(runtime: TensorRuntime, raw: RawOps, logits_BV: Tensor, settings: RowSettings, top: number): Draw {
  const [rows, vocabSize] = logits_BV.shape as [number, number]
  const column = (x: Tensor): Tensor => raw.reshape(x, [rows, 1])
  const { greedy, repetition } = settings
  let z = repetition === undefined ? logits_BV : penalize(raw, logits_BV, column(repetition.penalty), repetition.seen)
  z = raw.mul(z, column(settings.inverseTemperature))
  if (settings.truncation !== undefined) z = truncate(runtime, raw, z, greedy, settings.truncation)

  const { count, size } = vocabularyBlocks(vocabSize)
  const blocks = raw.reshape(padColumns(raw, z, count * size), [rows, count, size])
  const blockMax = raw.max(blocks, 2)
  const max = raw.max(blockMax, 1, true)
  const blockMass = raw.sum(raw.exp(raw.sub(blocks, raw.reshape(max, [rows, 1, 1]))), 2)
  const logTotal = raw.add(max, raw.log(raw.sum(blockMass, 1, true)))

  // Of equal logits a greedy row takes the first: all mass on the maximum, and the first hit wins.
  const [u, w] = uniformPairs(raw, settings.seed, settings.position)
  const zero = float(0)
  const first = (uniform: Tensor): Tensor => raw.select(greedy, zero, uniform)
  const onMax = (x: Tensor): Tensor => raw.cast(raw.equal(x, max), DType.float32)
  const block = pick(raw, raw.select(column(greedy), onMax(blockMax), blockMass), first(u))
  const members = raw.gather(raw.reshape(blocks, [rows * count, size]), raw.add(block, offsets(rows, count, raw)), 0)
  const within = pick(raw, raw.select(column(greedy), onMax(members), raw.exp(raw.sub(members, max))), first(w))
  const chosen = raw.gather(raw.reshape(members, [rows * size]), raw.add(within, offsets(rows, size, raw)), 0)
  const ids = raw.minimum(raw.add(raw.mul(block, scalar(size, "int32")), within), scalar(vocabSize - 1, "int32"))
  const logProbs = raw.sub(chosen, raw.reshape(logTotal, [rows]))
  if (top === 0) return { ids, logProbs, topIds: undefined, topLogProbs: undefined }
  const [values, topIds] = raw.topK(z, top) as [Tensor, Tensor]
  return { ids, logProbs, topIds, topLogProbs: raw.sub(values, logTotal) }
}

/** Of each row of `mass` [B, n] the first index whose running sum passes u * total; never one without mass. */
function pick(raw: RawOps, mass: Tensor, u_B: Tensor): Tensor {
  const [rows, count] = mass.shape as [number, number]
  const running = raw.cumsum(mass, 1)
  const total = raw.slice(running, [0, count - 1], [rows, 1])
  const positive = raw.greater(mass, float(0))
  const hit = raw.and(raw.greater(running, raw.mul(total, raw.reshape(u_B, [rows, 1]))), positive)
  const index = raw.reshape(raw.range(count), [1, count])
  const none = scalar(-1, "int32")
  // Rounding in the running sums may leave no hit: then the last one with mass. NaN leaves neither: then the first.
  const earliest = raw.sub(scalar(count - 1, "int32"), raw.max(raw.select(hit, raw.sub(scalar(count - 1, "int32"), index), none), 1))
  const last = raw.max(raw.select(positive, index, scalar(0, "int32")), 1)
  return raw.select(raw.less(earliest, scalar(count, "int32")), earliest, last)
}

/** Row b of a flattened [B, width] array begins at b * width. */
function offsets(rows: number, width: number, raw: RawOps): Tensor {
  return raw.mul(raw.range(rows), scalar(width, "int32"))
}

function padColumns(raw: RawOps, x_BV: Tensor, width: number): Tensor {
  const [rows, columns] = x_BV.shape as [number, number]
  return columns === width ? x_BV : raw.concat([x_BV, filled(raw, [rows, width - columns], float(excluded))], 1)
}

/** As vLLM and transformers: positive logits of seen tokens are divided by the penalty, negative ones multiplied (arXiv:1909.05858, 4.1). */
function penalize(raw: RawOps, logits: Tensor, penalty_B1: Tensor, seen_BV: Tensor): Tensor {
  const changed = raw.select(raw.greater(logits, float(0)), raw.div(logits, penalty_B1), raw.mul(logits, penalty_B1))
  return raw.select(seen_BV, changed, logits)
}

/** `seen` [B, V] with each row's drawn token added. */
export function addSeen(raw: RawOps, seen_BV: Tensor, ids_B: Tensor): Tensor {
  const [rows, vocabSize] = seen_BV.shape as [number, number]
  return raw.or(seen_BV, raw.equal(raw.reshape(raw.range(vocabSize), [1, vocabSize]), raw.reshape(ids_B, [rows, 1])))
}
