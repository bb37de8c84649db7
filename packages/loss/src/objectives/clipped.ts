// PPO's clipped surrogate, shared by the GRPO family.
import { add, greater, less, logicalAnd, maximum, minimum, mul, neg, sub } from "@tensorflow/tfjs-core"
import type { Surrogate, SurrogateInputs } from "./definition.ts"

/**
 * -min(r A, clip(r, 1 - epsilonLow, 1 + epsilonHigh) A); with `delta` the first product uses min(r, delta), which bounds the
 * loss of tokens with a negative advantage (DAPO eq. 8, INTELLECT-2 section 3.4).
 */
export function clippedSurrogate({ tokens, ratio, scalar, spec }: SurrogateInputs): Surrogate {
  const { advantages_RL } = tokens
  const low = sub(1, scalar("epsilonLow"))
  const high = add(1, scalar("epsilonHigh"))
  const clipped = minimum(maximum(ratio, low), high)
  const bounded = spec.delta === undefined ? ratio : minimum(ratio, scalar("delta"))
  // At a tie the whole gradient goes to the first argument of minimum: inside the range both products are equal.
  const loss_RL = neg(minimum(mul(bounded, advantages_RL), mul(clipped, advantages_RL)))
  return {
    loss_RL,
    clipLow: logicalAnd(less(ratio, low), less(advantages_RL, 0)),
    clipHigh: logicalAnd(greater(ratio, high), greater(advantages_RL, 0)),
  }
}
