// Log-probs of chosen tokens from logits. libtensorflow has one op that gives the value and its gradient without a one-hot and with
// one pass over the vocabulary; other backends compose it.
import { cast, customGrad, div, exp, expandDims, type GradSaveFunc, logSoftmax, mul, neg, oneHot, sum, type Tensor, type Tensor1D, zerosLike } from "@tensorflow/tfjs-core"
import type { RawOps } from "@cohort/tensor"

/**
 * log softmax(logits / temperature)[target] for each row.
 * @param logits_NV float32
 * @param targets_N int32
 */
export function targetLogProbs(raw: RawOps | undefined, logits_NV: Tensor, targets_N: Tensor, temperature: Tensor): Tensor {
  const scaled = div(logits_NV, temperature)
  if (raw === undefined) return sum(mul(logSoftmax(scaled), oneHot(cast(targets_N, "int32") as Tensor1D, scaled.shape[1]!)), 1)
  const op = customGrad((...args) => {
    const [x, targets, save] = args as unknown as [Tensor, Tensor, GradSaveFunc]
    const [loss, slope] = raw.sparseCrossEntropy(x, targets)
    save([slope, targets])
    return {
      value: neg(loss),
      gradFunc: (dy: Tensor, saved: Tensor[]) => [mul(neg(saved[0]!), expandDims(dy, -1)), zerosLike(saved[1]!)],
    }
  })
  return op(scaled, targets_N)
}

/** Entropy of softmax(logits / temperature) per row, in nats. */
export function entropies(logits_NV: Tensor, temperature: Tensor): Tensor {
  const logP = logSoftmax(div(logits_NV, temperature))
  return neg(sum(mul(exp(logP), logP), 1))
}

