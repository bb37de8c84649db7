// Schulman's estimators of KL(policy || other) from samples of the policy, in forms that survive float32.
// http://joschu.net/blog/kl-approx.html
import { add, exp, greater, abs, mul, neg, square, sub, where } from "@tensorflow/tfjs-core"
import type { Tensor } from "@tensorflow/tfjs-core"
import { withoutGradient } from "./detach.ts"
import type { KlEstimator } from "./objective.ts"
import { limit } from "./tokens.ts"

/**
 * exp(x) - 1 - x, never negative. Near 0 the plain form cancels: at x = 3e-5 float32 gives 0 instead of 4.5e-10, so a Taylor
 * series is used under 0.5 (relative error below 1e-7). `x` must be finite and under 88.
 */
export function expMinusLinear<T extends Tensor>(x: T): T {
  const small = mul(square(x), horner(x))
  const large = sub(sub(exp(x), 1), x)
  return where(withoutGradient(() => greater(abs(x), 0.5)), large, small) as T
}

/** 1/2! + x/3! + x^2/4! + ... up to x^8/10!. */
function horner(x: Tensor): Tensor {
  let sum: Tensor = mul(x, 1 / 3628800)
  for (const factorial of [362880, 40320, 5040, 720, 120, 24, 6]) sum = mul(add(sum, 1 / factorial), x)
  return add(sum, 1 / 2)
}

/**
 * Per-token KL estimate for x = log q - log p at tokens sampled from p. In the loss, the sampled gradient with respect to log p is
 * k1: 1, whose expectation is zero on-policy (k1 in the loss does not pull towards q); k2: -x, the gradient of KL(p || q) in expectation;
 * k3: 1 - q/p, that of KL(q || p) under on-policy samples.
 */
export function klEstimate<T extends Tensor>(estimator: KlEstimator, x: T): T {
  const bounded = limit(x)
  switch (estimator) {
    case "k1":
      return neg(bounded)
    case "k2":
      return mul(square(bounded), 0.5) as T
    case "k3":
      return expMinusLinear(bounded)
  }
}
