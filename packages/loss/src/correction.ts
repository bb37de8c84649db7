// Importance correction between the sampler's numbers and the trainer's own, and the masks that leave tokens out by rule.
import { cast, exp, greaterEqual, lessEqual, logicalAnd, logicalOr, maximum, minimum, mul, sub } from "@tensorflow/tfjs-core"
import type { Tensor, Tensor2D } from "@tensorflow/tfjs-core"
import { withoutGradient } from "./detach.ts"
import type { CorrectionSpec } from "./objective.ts"
import type { ScalarOf } from "./scalars.ts"
import { limit, sequenceMean } from "./tokens.ts"
import type { Tokens } from "./tokens.ts"

export interface Correction {
  /** What multiplies the policy loss: per token, or equal within a sequence. */
  readonly weight: Tensor
  /** The weight before truncation or masking. */
  readonly raw: Tensor
}

/**
 * exp(proximal - behaviour) per token, or its product (sequence_*) or geometric mean (geometric_mask) over a sequence's trained
 * tokens, truncated or masked to [min, max]. `proximal_RL` must carry no gradient.
 */
export function samplerCorrection(spec: CorrectionSpec, proximal_RL: Tensor2D, tokens: Tokens, scalar: ScalarOf): Correction {
  // A token without a behaviour log-prob has weight 1.
  const recorded_RL = sub(tokens.mask_RL, tokens.missing_RL)
  const gap_RL = mul(limit(sub(proximal_RL, tokens.behavior_RL)), recorded_RL) as Tensor2D
  const raw = exp(limit(logWeight(spec, gap_RL, tokens)))
  const min = scalar("correctionMin")
  const max = scalar("correctionMax")
  const inside = cast(logicalAnd(greaterEqual(raw, min), lessEqual(raw, max)), "float32")
  switch (spec.mode) {
    case "token_truncate":
    case "sequence_truncate":
      return { raw, weight: minimum(maximum(raw, min), max) }
    case "token_mask":
    case "sequence_mask":
      return { raw, weight: mul(raw, inside) }
    case "geometric_mask":
      return { raw, weight: inside }
  }
}

function logWeight(spec: CorrectionSpec, gap_RL: Tensor2D, tokens: Tokens): Tensor {
  if (spec.mode.startsWith("token_")) return gap_RL
  return spec.mode === "geometric_mask" ? sequenceMean(gap_RL, tokens) : tokens.sequenceSum(gap_RL)
}

/** DeepSeek-V3.2's off-policy sequence mask [R, L]: 1 where A >= 0 or the sequence's mean (behaviour - policy) log-prob is at most the threshold. */
export function offPolicyMask(policy_RL: Tensor2D, tokens: Tokens, scalar: ScalarOf): Tensor2D {
  const drift_R1 = sequenceMean(sub(tokens.behavior_RL, policy_RL), tokens)
  const near_R1 = lessEqual(drift_R1, scalar("offPolicyThreshold"))
  return cast(logicalOr(greaterEqual(tokens.advantages_RL, 0), near_R1), "float32")
}

/** 1 where the token's entropy reaches the threshold [R, L]; no gradient. */
export function highEntropyMask(entropy_RL: Tensor2D, scalar: ScalarOf): Tensor2D {
  return withoutGradient(() => cast(greaterEqual(entropy_RL, scalar("entropyThreshold")), "float32"))
}
