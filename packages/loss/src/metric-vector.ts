// The metrics of one micro-batch as a vector, computed with the tape off: no metric is part of the gradient.
import { abs, add, cast, concat, equal, exp, expandDims, greater, lessEqual, logicalOr, max, minimum, mul, reshape, scalar, square, stack, sub, sum, tensor, zeros, zerosLike } from "@tensorflow/tfjs-core"
import type { Scalar, Tensor, Tensor1D, Tensor2D } from "@tensorflow/tfjs-core"
import type { Correction } from "./correction.ts"
import { withoutGradient } from "./detach.ts"
import { expMinusLinear } from "./kl.ts"
import { AGE_NAMES, LOSS_NAMES, MAXIMUM_NAMES, SUM_NAMES } from "./metrics.ts"
import { AGE_BUCKETS } from "./objective.ts"
import type { Surrogate } from "./objectives/definition.ts"
import { LOG_RATIO_LIMIT, limit, sequenceMean } from "./tokens.ts"
import type { Tokens } from "./tokens.ts"

/** Largest |log-prob gap| that is reported; keeps an infinity from hiding the sums beside it. */
const LARGEST_GAP = 1e6

export interface MetricInputs {
  readonly tokens: Tokens
  readonly surrogate: Surrogate
  readonly ratio: Tensor2D
  /** Policy log-probs without a gradient. */
  readonly policy_RL: Tensor2D
  /** Log-ratio before it is cut to the limit. */
  readonly logRatio_RL: Tensor2D
  readonly kl_RL: Tensor | undefined
  readonly correction: Correction | undefined
  readonly keep_RL: Tensor | undefined
  readonly losses: Readonly<Record<(typeof LOSS_NAMES)[number], Scalar | undefined>>
}

/**
 * Vector in the order of METRIC_NAMES. The sums are stacked and reduced together: a compiler and an eager backend both take far longer
 * for a dozen small reductions than for one.
 */
export function metricVector(inputs: MetricInputs): Tensor1D {
  return withoutGradient(() => {
    const { tokens } = inputs
    const perToken = perTokenMetrics(inputs)
    const sums_KRL = stack(SUM_NAMES.map((name) => perToken[name]))
    const maxima_KRL = stack(MAXIMUM_NAMES.map((name) => perToken[name]))
    // Rows first: a single float32 accumulator stalls at 2^24.
    const sums_K = sum(sum(sums_KRL, 2), 1)
    return concat([sums_K, ageSums(perToken, tokens), max(maxima_KRL, [1, 2]), stack(LOSS_NAMES.map((name) => inputs.losses[name] ?? scalar(0)))]) as Tensor1D
  })
}

/** The figures of AGE_NAMES: products with the members of each bucket, no matrix product, which may run in bf16. */
function ageSums(perToken: Record<PerTokenName, Tensor>, { ages_RL }: Tokens): Tensor {
  if (ages_RL === undefined) return zeros([AGE_NAMES.length])
  const bucket_1RL = expandDims(minimum(ages_RL, AGE_BUCKETS.at(-1)!), 0)
  const members_1BRL = expandDims(cast(equal(bucket_1RL, tensor([...AGE_BUCKETS], [AGE_BUCKETS.length, 1, 1])), "float32"), 0)
  const figures_F1RL = expandDims(stack([perToken.tokens, add(perToken.clipLowSum, perToken.clipHighSum), perToken.klBehaviorSum]), 1)
  return reshape(sum(sum(mul(figures_F1RL, members_1BRL), 3), 2), [AGE_NAMES.length])
}

type PerTokenName = (typeof SUM_NAMES)[number] | (typeof MAXIMUM_NAMES)[number]

/** [R, L] per metric, 0 where not trained. */
function perTokenMetrics(inputs: MetricInputs): Record<PerTokenName, Tensor> {
  const { tokens, surrogate, correction, keep_RL } = inputs
  const { mask_RL } = tokens
  const ratio_RL = mul(inputs.ratio, mask_RL)
  const gap_RL = sub(inputs.policy_RL, tokens.behavior_RL)
  const distance_RL = minimum(abs(gap_RL), LARGEST_GAP)
  const none_RL = zerosLike(mask_RL)
  const counted = (condition: Tensor | undefined): Tensor => (condition === undefined ? none_RL : mul(cast(condition, "float32"), mask_RL))
  const clipLow_RL = counted(surrogate.clipLow)
  const clipHigh_RL = counted(surrogate.clipHigh)
  const clipRegion_RL = add(clipLow_RL, clipHigh_RL)
  // Share of the token's sequence, at each of its trained tokens.
  const shareOf = (counted_RL: Tensor): Tensor => mul(sequenceMean(counted_RL, tokens), mask_RL)
  const unclipped = (counted_RL: Tensor): Tensor => shareOf(sub(mask_RL, counted_RL))
  const behaviorRatio_RL = mul(exp(limit(gap_RL)), mask_RL)
  return {
    behaviorRatioSum: behaviorRatio_RL,
    behaviorRatioSquareSum: square(behaviorRatio_RL),
    behaviorRatioMax: behaviorRatio_RL,
    clipLowMax: shareOf(clipLow_RL),
    clipHighMax: shareOf(clipHigh_RL),
    clipRegionMax: shareOf(clipRegion_RL),
    unclippedLowMax: unclipped(clipLow_RL),
    unclippedHighMax: unclipped(clipHigh_RL),
    unclippedRegionMax: unclipped(clipRegion_RL),
    tokens: mask_RL,
    ratioSum: ratio_RL,
    ratioMax: ratio_RL,
    clipLowSum: clipLow_RL,
    clipHighSum: clipHigh_RL,
    klBehaviorSum: mul(expMinusLinear(limit(gap_RL)), mask_RL),
    entropySum: tokens.entropy_RL,
    logProbGapSum: distance_RL,
    logProbGapMax: distance_RL,
    missingBehaviorSum: tokens.missing_RL,
    saturatedSum: counted(greater(abs(inputs.logRatio_RL), LOG_RATIO_LIMIT)),
    klReferenceSum: inputs.kl_RL === undefined ? none_RL : mul(inputs.kl_RL, mask_RL),
    correctionSum: correction === undefined ? mask_RL : mul(correction.weight, mask_RL),
    correctionMax: correction === undefined ? mask_RL : mul(correction.raw, mask_RL),
    maskedSum: counted(leftOut(correction, keep_RL)),
  }
}

function leftOut(correction: Correction | undefined, keep_RL: Tensor | undefined): Tensor | undefined {
  const conditions: Tensor[] = []
  if (correction !== undefined) conditions.push(lessEqual(correction.weight, 0))
  if (keep_RL !== undefined) conditions.push(lessEqual(keep_RL, 0))
  return conditions.length === 0 ? undefined : conditions.reduce((either, condition) => logicalOr(either, condition))
}
