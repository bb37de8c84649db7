// VESPO: each sequence's policy gradient is scaled by a detached gamma-shaped weight of its sequence ratio.
import { add, cast, exp, less, log, maximum, minimum, mul, neg, sub } from "@tensorflow/tfjs-core"
import type { Tensor } from "@tensorflow/tfjs-core"
import { detach } from "../detach.ts"
import { LOG_RATIO_LIMIT } from "../tokens.ts"
import type { ObjectiveDefinition, Surrogate, SurrogateInputs } from "./definition.ts"

/** Smallest sequence ratio that is told apart from 0, as in the reference implementation. */
const SMALLEST_RATIO = 1e-8
const SMALLEST_LOG_RATIO = Math.log(SMALLEST_RATIO)
const SMALLEST_LAMBDA = 1e-4

/** -phi A log p with phi = exp(lambda + k log w - lambda w), w the sequence ratio times the sampler correction; phi(1) = 1. */
function gammaSurrogate({ tokens, logRatio_RL, correction, scalar }: SurrogateInputs): Surrogate {
  const { advantages_RL } = tokens
  const isNegative_RL = cast(less(advantages_RL, 0), "float32")
  const bySign = (positive: string, negative: string): Tensor =>
    add(scalar(positive), mul(isNegative_RL, sub(scalar(negative), scalar(positive))))
  let logWeight_RL: Tensor = detach(logRatio_RL)
  if (correction !== undefined) {
    const logCorrection = bounded(log(maximum(correction, SMALLEST_RATIO)))
    logWeight_RL = add(logWeight_RL, logCorrection)
  }
  const logW = bounded(tokens.sequenceSum(logWeight_RL))
  const k_RL = bySign("kPositive", "kNegative")
  const lambda_RL = maximum(bySign("lambdaPositive", "lambdaNegative"), SMALLEST_LAMBDA)
  const phi_RL = exp(sub(add(lambda_RL, mul(k_RL, logW)), mul(lambda_RL, exp(logW))))
  return { loss_RL: neg(mul(mul(phi_RL, advantages_RL), tokens.logProbs_RL)), clipLow: undefined, clipHigh: undefined }
}

const bounded = (x: Tensor): Tensor => minimum(maximum(x, SMALLEST_LOG_RATIO), LOG_RATIO_LIMIT)

export const vespo: ObjectiveDefinition = { kind: "vespo", level: "token", levelFixed: true, reduction: "token", surrogate: gammaSurrogate, ownsCorrection: true }
