// The micro-batch as [rows, length] tensors in which no masked position holds anything that could reach the loss.
// Shape legend: N = rows * length, R = rows, L = length; _R1 is a column that broadcasts over L.
import { cast, div, greater, less, maximum, minimum, mul, reshape, sub, sum, where, zerosLike } from "@tensorflow/tfjs-core"
import type { Scalar, Tensor, Tensor1D, Tensor2D } from "@tensorflow/tfjs-core"
import { detach } from "./detach.ts"

/** Log-ratios are cut to +-20, so that exp stays finite in float32 (e^20 is 4.9e8). */
export const LOG_RATIO_LIMIT = 20

export interface ObjectiveInputs {
  readonly rows: number
  readonly length: number
  /** Policy log-prob of each token given its prefix; the gradient flows here. Any value where the mask is 0. */
  readonly logProbs_N: Tensor1D
  /** Log-prob under the policy that sampled; NaN where the server gave none. */
  readonly behaviorLogProbs_N: Tensor1D
  readonly advantages_N: Tensor1D
  readonly weights_N: Tensor1D
  /** Float 1 for a trained token, 0 elsewhere. */
  readonly mask_N: Tensor1D
  /** Entropy of the next-token distribution; metrics, the entropy bonus and the entropy mask use it. */
  readonly entropy_N?: Tensor1D
  /** Log-prob under the reference policy; needed with a KL coefficient. */
  readonly referenceLogProbs_N?: Tensor1D
  /** Trainer's own log-prob of the version that sampled; read with a correction only, which takes the current policy's value without it. */
  readonly proximalLogProbs_N?: Tensor1D
  /** The numbers of `objectiveScalars(spec)` as scalar tensors, so that one compiled function serves every window. */
  readonly scalars: Readonly<Record<string, Scalar>>
}

export interface Tokens {
  readonly mask_RL: Tensor2D
  readonly trained_R1: Tensor2D
  readonly logProbs_RL: Tensor2D
  readonly behavior_RL: Tensor2D
  readonly advantages_RL: Tensor2D
  readonly weights_RL: Tensor2D
  readonly missing_RL: Tensor2D
  readonly entropy_RL: Tensor2D
  readonly reference_RL: Tensor2D | undefined
  readonly proximal_RL: Tensor2D | undefined
}

/**
 * Reshapes and cleans the inputs. Masked positions become 0 by selection before any arithmetic: a product with the mask
 * would turn a NaN or infinity into NaN, and so would its gradient. A missing (NaN) behaviour log-prob becomes the policy's own, so its ratio is 1.
 */
export function cleanTokens(inputs: ObjectiveInputs): Tokens {
  const { rows, length } = inputs
  const to_RL = (x: Tensor1D): Tensor2D => reshape(x, [rows, length])
  const mask_RL = to_RL(inputs.mask_N)
  const zeros_RL = zerosLike(mask_RL)
  const trained_RL = greater(mask_RL, 0.5)
  const clean = (x: Tensor1D): Tensor2D => where(trained_RL, to_RL(x), zeros_RL)
  const logProbs_RL = clean(inputs.logProbs_N)
  const recorded_RL = clean(inputs.behaviorLogProbs_N)
  // A comparison with NaN is false, so this is true for every recorded value: log-probs are never above 0 but for rounding.
  const isRecorded_RL = less(recorded_RL, 1)
  return {
    mask_RL,
    trained_R1: sum(mask_RL, 1, true),
    logProbs_RL,
    behavior_RL: where(isRecorded_RL, recorded_RL, detach(logProbs_RL)),
    advantages_RL: clean(inputs.advantages_N),
    weights_RL: clean(inputs.weights_N),
    missing_RL: sub(mask_RL, mul(mask_RL, cast(isRecorded_RL, "float32"))),
    entropy_RL: inputs.entropy_N === undefined ? zeros_RL : clean(inputs.entropy_N),
    reference_RL: inputs.referenceLogProbs_N === undefined ? undefined : clean(inputs.referenceLogProbs_N),
    proximal_RL: inputs.proximalLogProbs_N === undefined ? undefined : clean(inputs.proximalLogProbs_N),
  }
}

/** Cut to +-{@link LOG_RATIO_LIMIT}; no gradient outside. */
export const limit = <T extends Tensor>(logRatio: T): T => minimum(maximum(logRatio, -LOG_RATIO_LIMIT), LOG_RATIO_LIMIT)

/** 1 where `condition` holds and the token is trained. */
export const count = (condition: Tensor, mask: Tensor): Tensor => mul(cast(condition, "float32"), mask)

/** Sum over rows of row sums: two stages, since a single float32 accumulator stalls at 2^24. */
export const total = (x_RL: Tensor): Scalar => sum(sum(x_RL, 1))

/** Mean over the trained tokens of each row; 0 for a row without any. */
export const rowMean = (x_RL: Tensor2D, tokens: Tokens): Tensor2D =>
  div(sum(mul(x_RL, tokens.mask_RL), 1, true), maximum(tokens.trained_R1, 1))
