// The metrics of one micro-batch as a vector, computed with the tape off: no metric is part of the gradient.
import { abs, cast, greater, lessEqual, logicalOr, max, minimum, mul, stack, sub } from "@tensorflow/tfjs-core"
import type { Scalar, Tensor, Tensor1D, Tensor2D } from "@tensorflow/tfjs-core"
import type { Correction } from "./correction.ts"
import { withoutGradient } from "./detach.ts"
import { expMinusLinear } from "./kl.ts"
import { METRIC_NAMES } from "./metrics.ts"
import type { ObjectiveMetrics } from "./objective.ts"
import type { Surrogate } from "./objectives/definition.ts"
import { LOG_RATIO_LIMIT, limit, total } from "./tokens.ts"
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
  readonly loss: Scalar
}

/** Vector in the order of METRIC_NAMES. */
export function metricVector(inputs: MetricInputs): Tensor1D {
  return withoutGradient(() => {
    const sums = metricSums(inputs)
    return stack(METRIC_NAMES.map((name) => sums[name])) as Tensor1D
  })
}

function metricSums(inputs: MetricInputs): Record<keyof ObjectiveMetrics, Scalar> {
  const { tokens, surrogate, correction, keep_RL } = inputs
  const { mask_RL } = tokens
  const ratio_RL = mul(inputs.ratio, mask_RL)
  const gap_RL = sub(inputs.policy_RL, tokens.behavior_RL)
  const distance_RL = minimum(abs(gap_RL), LARGEST_GAP)
  const none = total(mul(mask_RL, 0))
  const counted = (condition: Tensor | undefined): Scalar =>
    condition === undefined ? none : total(mul(cast(condition, "float32"), mask_RL))
  return {
    tokens: total(mask_RL),
    loss: inputs.loss,
    ratioSum: total(ratio_RL),
    ratioMax: max(ratio_RL),
    clipLowSum: counted(surrogate.clipLow),
    clipHighSum: counted(surrogate.clipHigh),
    klBehaviorSum: total(mul(expMinusLinear(limit(gap_RL)), mask_RL)),
    entropySum: total(tokens.entropy_RL),
    logProbGapSum: total(distance_RL),
    logProbGapMax: max(distance_RL),
    missingBehaviorSum: total(tokens.missing_RL),
    saturatedSum: counted(greater(abs(inputs.logRatio_RL), LOG_RATIO_LIMIT)),
    klReferenceSum: inputs.kl_RL === undefined ? none : total(mul(inputs.kl_RL, mask_RL)),
    correctionSum: total(correction === undefined ? mask_RL : mul(correction.weight, mask_RL)),
    correctionMax: max(correction === undefined ? mask_RL : mul(correction.raw, mask_RL)),
    maskedSum: counted(leftOut(correction, keep_RL)),
  }
}

function leftOut(correction: Correction | undefined, keep_RL: Tensor | undefined): Tensor | undefined {
  const conditions: Tensor[] = []
  if (correction !== undefined) conditions.push(lessEqual(correction.weight, 0))
  if (keep_RL !== undefined) conditions.push(lessEqual(keep_RL, 0))
  return conditions.length === 0 ? undefined : conditions.reduce((either, condition) => logicalOr(either, condition))
}
