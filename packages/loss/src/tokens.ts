// The micro-batch as [rows, length] tensors in which no masked position holds anything that could reach the loss.
// Shape legend: N = rows * length, R = rows, L = length, S = sequences of a row. What belongs to a sequence broadcasts against [R, L]: [R, 1] with one
// sequence a row, else [R, L] with equal values within a sequence.
import { cast, div, equal, expandDims, greater, less, maximum, minimum, mul, range, reshape, sub, sum, where, zerosLike } from "@tensorflow/tfjs-core"
import type { Scalar, Tensor, Tensor1D, Tensor2D } from "@tensorflow/tfjs-core"
import { detach, withoutGradient } from "./detach.ts"

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
  /** Trainer's own log-prob before the first optimizer step on this batch; read when `objectiveNeeds(spec).proximal`. Without it the current policy's value is taken: ratio 1. */
  readonly proximalLogProbs_N?: Tensor1D
  /** Age of each token's sample in optimizer steps, -1 where unknown; for metrics by age. */
  readonly ages_N?: Tensor1D
  /** For rows that hold several sequences: which one each token belongs to. Without it a row is one sequence. */
  readonly sequences?: RowSequences
  /** The numbers of `objectiveScalars(spec)` as scalar tensors, so that one compiled function serves every window. */
  readonly scalars: Readonly<Record<string, Scalar>>
}

/** Sequences packed into a row. */
export interface RowSequences {
  /** Number of the token's sequence within its row, from 0; -1 where there is none. int32. */
  readonly index_N: Tensor1D
  /** Most sequences of a row: fixed by the compiled shape. */
  readonly perRow: number
}

export interface Tokens {
  readonly mask_RL: Tensor2D
  /** Sum over the trained tokens of each sequence. */
  readonly sequenceSum: (x_RL: Tensor) => Tensor2D
  /** Trained tokens of each sequence. */
  readonly trained: Tensor2D
  readonly logProbs_RL: Tensor2D
  readonly behavior_RL: Tensor2D
  readonly advantages_RL: Tensor2D
  readonly weights_RL: Tensor2D
  readonly missing_RL: Tensor2D
  readonly entropy_RL: Tensor2D
  readonly ages_RL: Tensor2D | undefined
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
  const sequenceSum = sequenceSumOf(mask_RL, inputs.sequences)
  return {
    mask_RL,
    sequenceSum,
    trained: sequenceSum(mask_RL),
    logProbs_RL,
    behavior_RL: where(isRecorded_RL, recorded_RL, detach(logProbs_RL)),
    advantages_RL: clean(inputs.advantages_N),
    weights_RL: clean(inputs.weights_N),
    missing_RL: sub(mask_RL, mul(mask_RL, cast(isRecorded_RL, "float32"))),
    entropy_RL: inputs.entropy_N === undefined ? zeros_RL : clean(inputs.entropy_N),
    ages_RL: inputs.ages_N === undefined ? undefined : to_RL(inputs.ages_N),
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

/** Mean over the trained tokens of each sequence; 0 for one without any. */
export const sequenceMean = (x_RL: Tensor, tokens: Tokens): Tensor2D => div(tokens.sequenceSum(x_RL), maximum(tokens.trained, 1))

/** Products and sums, no matrix product: that may run in bf16. */
function sequenceSumOf(mask_RL: Tensor2D, sequences: RowSequences | undefined): (x_RL: Tensor) => Tensor2D {
  if (sequences === undefined) return (x_RL) => sum(mul(x_RL, mask_RL), 1, true)
  const index_R1L = expandDims(reshape(sequences.index_N, mask_RL.shape), 1)
  const numbers_1S1 = reshape(range(0, sequences.perRow, 1, "int32"), [1, sequences.perRow, 1])
  const members_RSL = withoutGradient(() => cast(equal(index_R1L, numbers_1S1), "float32"))
  return (x_RL) => {
    const sums_RS1 = sum(mul(members_RSL, expandDims(mul(x_RL, mask_RL), 1)), 2, true)
    return sum(mul(members_RSL, sums_RS1), 1)
  }
}
