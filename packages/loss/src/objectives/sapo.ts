// SAPO: a sigmoid gate in place of the hard clip, with a steeper one for negative advantages.
import { add, cast, div, greater, mul, neg, sigmoid, sub } from "@tensorflow/tfjs-core"
import type { ObjectiveDefinition, Surrogate, SurrogateInputs } from "./definition.ts"

/** -A (4 / t) sigmoid(t (r - 1)), t by the sign of A; its slope in r is 1 at r = 1. */
function gatedSurrogate({ tokens, ratio, scalar }: SurrogateInputs): Surrogate {
  const { advantages_RL } = tokens
  const positive = scalar("temperaturePositive")
  const negative = scalar("temperatureNegative")
  const isPositive_RL = cast(greater(advantages_RL, 0), "float32")
  const temperature_RL = add(negative, mul(isPositive_RL, sub(positive, negative)))
  const gate_RL = sigmoid(mul(temperature_RL, sub(ratio, 1)))
  return { loss_RL: neg(mul(mul(gate_RL, div(4, temperature_RL)), advantages_RL)), clipLow: undefined, clipHigh: undefined }
}

export const sapo: ObjectiveDefinition = { kind: "sapo", level: "token", reduction: "sequence", surrogate: gatedSurrogate }
