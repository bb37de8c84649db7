// KL to the reference as part of the reward instead of the loss: no gradient flows through it, advantages carry it.
import { CohortError } from "@cohort/errors"
import type { KlEstimator } from "./objective.ts"
import { LOG_RATIO_LIMIT } from "./tokens.ts"

export interface TokenLogProbs {
  /** Of the policy that sampled. */
  readonly policy: ArrayLike<number>
  readonly reference: ArrayLike<number>
  /** 1 where the token is trained. */
  readonly mask: ArrayLike<number>
}

/**
 * Estimate of KL(policy || reference) of one completion, summed over its trained tokens, nats. A token without a recorded log-prob (NaN) counts 0.
 *
 * @throws CohortError `internal` for arrays of different length, `numeric` when a trained token's reference log-prob is no number.
 * @example
 * const penalised = reward - coefficient * completionKl({ policy, reference, mask }, "k1")
 */
export function completionKl(tokens: TokenLogProbs, estimator: KlEstimator): number {
  const { policy, reference, mask } = tokens
  if (policy.length !== reference.length || policy.length !== mask.length)
    throw new CohortError("internal", `${policy.length} policy log-probs, ${reference.length} of the reference, ${mask.length} mask entries`)
  let sum = 0
  for (let index = 0; index < policy.length; index++) {
    if (mask[index] !== 1) continue
    if (Number.isNaN(reference[index])) throw new CohortError("numeric", `the reference log-prob of token ${index} is NaN`, { hint: "The reference's weights are damaged: start from a sound checkpoint." })
    const x = reference[index]! - policy[index]!
    if (!Number.isNaN(x)) sum += estimate(estimator, Math.min(Math.max(x, -LOG_RATIO_LIMIT), LOG_RATIO_LIMIT))
  }
  return sum
}

function estimate(estimator: KlEstimator, x: number): number {
  switch (estimator) {
    case "k1":
      return -x
    case "k2":
      return x ** 2 / 2
    case "k3":
      return Math.expm1(x) - x
  }
}
