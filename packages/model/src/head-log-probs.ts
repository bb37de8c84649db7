// Log-probs and entropies straight from hidden states, some tokens at a time, so that the logits of a whole batch are never in memory: at a
// vocabulary of 49,152 those of 4,096 tokens take 0.8 GB, and autodiff would keep several copies.
import { add, cast, concat, customGrad, div, exp, expandDims, gather, greater, type GradSaveFunc, log, matMul, max, mul, neg, reshape, slice, stack, sub, sum, type Tensor, type Tensor1D, type Tensor2D, tidy, unsortedSegmentSum, zerosLike } from "@tensorflow/tfjs-core"

/** Tokens whose logits are in memory at once. */
export const HEAD_CHUNK_TOKENS = 256

export interface HeadOptions {
  /** True when the loss differentiates the entropy too; it costs one more pass over the vocabulary. */
  readonly entropyGradient?: boolean
  readonly chunkTokens?: number
}

/**
 * log softmax(hidden head^T / temperature)[target] and the entropy of that softmax, each [N].
 * The backward pass computes the logits of each chunk again: one more matrix product, in exchange for a chunk of memory instead of three batches'.
 * @param hidden_ND states after the final norm
 * @param head_VD output matrix [vocabulary, hidden]
 * @param targets_N int32
 * @param temperature scalar
 */
export function headLogProbs(hidden_ND: Tensor, head_VD: Tensor, targets_N: Tensor, temperature: Tensor, options: HeadOptions = {}): { readonly logProbs_N: Tensor1D; readonly entropies_N: Tensor1D } {
  const size = hidden_ND.shape[0]!
  const chunks = chunksOf(size, options.chunkTokens ?? HEAD_CHUNK_TOKENS)
  const op = customGrad((...args) => {
    const [hidden, head, targets, scale, save] = args as unknown as [Tensor2D, Tensor2D, Tensor, Tensor, GradSaveFunc]
    const value_2N = forward(hidden, head, targets, scale, chunks)
    save([hidden, head, targets, scale, value_2N])
    return {
      value: value_2N,
      gradFunc: (dy_2N: Tensor, saved: Tensor[]) => {
        const [h, w, t, s, y] = saved as [Tensor2D, Tensor2D, Tensor, Tensor, Tensor]
        const { hiddenGradient, headGradient } = backward({ hidden: h, head: w, targets: t, scale: s, value_2N: y, dy_2N }, chunks, options.entropyGradient === true)
        return [hiddenGradient, headGradient, zerosLike(t), zerosLike(s)]
      },
    }
  })
  const both_2N = op(hidden_ND, head_VD, cast(targets_N, "int32"), temperature)
  const row = (index: number): Tensor1D => reshape(slice(both_2N, [index, 0], [1, size]), [size])
  return { logProbs_N: row(0), entropies_N: row(1) }
}

interface Chunk {
  readonly start: number
  readonly size: number
}

function chunksOf(size: number, most: number): Chunk[] {
  return Array.from({ length: Math.ceil(size / most) }, (_, index) => ({ start: index * most, size: Math.min(most, size - index * most) }))
}

/** `x`, but only after `before` is known: a graph would otherwise compute all chunks at once. A comparison that never holds, so NaN does not pass. */
function after<T extends Tensor>(x: T, before: Tensor | undefined): T {
  return before === undefined ? x : add(x, cast(greater(sum(before), Infinity), "float32"))
}

const rowsOf = (x_ND: Tensor, { start, size }: Chunk): Tensor2D => slice(x_ND, [start, 0], [size, x_ND.shape[1]!]) as Tensor2D
const partOf = (x_N: Tensor, { start, size }: Chunk): Tensor1D => slice(x_N, [start], [size]) as Tensor1D

function forward(hidden: Tensor2D, head: Tensor2D, targets: Tensor, scale: Tensor, chunks: readonly Chunk[]): Tensor2D {
  const done: Tensor2D[] = []
  for (const chunk of chunks)
    done.push(
      tidy(() => {
        const part = after(rowsOf(hidden, chunk), done.at(-1))
        const logits = div(matMul(part, head, false, true), scale)
        const largest = max(logits, 1, true)
        const shifted = sub(logits, largest)
        const weights = exp(shifted)
        const total = sum(weights, 1)
        const logTotal = log(total)
        const target = sub(div(sum(mul(part, gather(head, partOf(targets, chunk))), 1), scale), reshape(largest, [chunk.size]))
        return stack([sub(target, logTotal), sub(logTotal, div(sum(mul(weights, shifted), 1), total))]) as Tensor2D
      }),
    )
  return done.length === 1 ? done[0]! : concat(done, 1)
}

interface BackwardInputs {
  readonly hidden: Tensor2D
  readonly head: Tensor2D
  readonly targets: Tensor
  readonly scale: Tensor
  /** Log-probs and entropies of the forward pass. */
  readonly value_2N: Tensor
  readonly dy_2N: Tensor
}

/**
 * With p the softmax, H its entropy, g and k the gradients of log-prob and entropy: d logits = g (onehot - p) - k p (log p + H), over the temperature.
 * The part of the one-hot needs no pass over the vocabulary.
 */
function backward({ hidden, head, targets, scale, value_2N, dy_2N }: BackwardInputs, chunks: readonly Chunk[], entropyGradient: boolean): { hiddenGradient: Tensor; headGradient: Tensor } {
  const size = hidden.shape[0]
  const row = (x_2N: Tensor, index: number): Tensor1D => reshape(slice(x_2N, [index, 0], [1, size]), [size])
  const g_N = div(row(dy_2N, 0), scale) as Tensor1D
  const k_N = div(row(dy_2N, 1), scale) as Tensor1D
  const entropy_N = row(value_2N, 1)
  const hiddenParts: Tensor[] = []
  let headGradient: Tensor | undefined
  for (const chunk of chunks) {
    const [hiddenPart, headPart] = tidy(() => {
      const part = after(rowsOf(hidden, chunk), headGradient)
      const logits = div(matMul(part, head, false, true), scale)
      const shifted = sub(logits, max(logits, 1, true))
      const weights = exp(shifted)
      const total = sum(weights, 1, true)
      const columns = (x_N: Tensor): Tensor => expandDims(partOf(x_N, chunk), 1)
      let slope = div(columns(g_N), total)
      if (entropyGradient) slope = add(slope, mul(div(columns(k_N), total), add(sub(shifted, log(total)), columns(entropy_N))))
      const d = neg(mul(weights, slope)) as Tensor2D
      const fromHead = matMul(d, part, true, false)
      return [matMul(d, head), headGradient === undefined ? fromHead : add(headGradient, fromHead)]
    }) as [Tensor, Tensor]
    headGradient?.dispose()
    headGradient = headPart
    hiddenParts.push(hiddenPart)
  }
  const g_N1 = expandDims(g_N, 1)
  const targetRows = gather(head, targets as Tensor1D)
  const hiddenGradient = add(concat(hiddenParts, 0), mul(g_N1, targetRows))
  return { hiddenGradient, headGradient: add(headGradient!, unsortedSegmentSum(mul(g_N1, hidden), targets as Tensor1D, head.shape[0])) }
}
