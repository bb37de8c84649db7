// CISPO (MiniMax-M1): the ratio is capped and detached, so every token keeps a gradient, that of its log-prob.
import { add, greater, logicalAnd, minimum, mul, neg } from "@tensorflow/tfjs-core"
import { detach } from "../detach.ts"
import type { ObjectiveDefinition, Surrogate, SurrogateInputs } from "./definition.ts"

/** -sg[min(r, 1 + epsilonHigh)] A log p. TRL's epsilon_high is the cap itself: 1 + epsilonHigh here. There is no lower bound. */
function cappedSurrogate({ tokens, ratio, scalar }: SurrogateInputs): Surrogate {
  const cap = add(1, scalar("epsilonHigh"))
  const weight = detach(minimum(ratio, cap))
  return {
    loss_RL: neg(mul(mul(weight, tokens.advantages_RL), tokens.logProbs_RL)),
    clipLow: undefined,
    clipHigh: logicalAnd(greater(ratio, cap), greater(tokens.advantages_RL, 0)),
  }
}

export const cispo: ObjectiveDefinition = { kind: "cispo", level: "token", reduction: "token", surrogate: cappedSurrogate }
