// The shape that every objective fills in: which ratio, which surrogate, which reduction.
import type { Tensor, Tensor2D } from "@tensorflow/tfjs-core"
import type { ObjectiveKind, ObjectiveSpec } from "../objective.ts"
import type { ScalarOf } from "../scalars.ts"
import type { Tokens } from "../tokens.ts"

/** What a surrogate is computed from. */
export interface SurrogateInputs {
  readonly tokens: Tokens
  /** exp of the log-ratio: [R, L] per token, [R, 1] per sequence. */
  readonly ratio: Tensor2D
  /** Per-token log-ratio policy - old, cut to +-20, whatever the level. */
  readonly logRatio_RL: Tensor2D
  /** Applied importance weight of the sampler correction; undefined without one. */
  readonly correction: Tensor | undefined
  readonly scalar: ScalarOf
  readonly spec: ObjectiveSpec
}

export interface Surrogate {
  /** Loss of each token (to be minimised), before mask, weight and reduction. */
  readonly loss_RL: Tensor
  /** Conditions that the clip metrics count. */
  readonly clipLow: Tensor | undefined
  readonly clipHigh: Tensor | undefined
}

export interface ObjectiveDefinition {
  readonly kind: ObjectiveKind
  /** token: r = p/old of each token. sequence: its geometric mean over the row. sequenceToken: value of the latter, gradient of the former. */
  readonly level: "token" | "sequence" | "sequenceToken"
  /**
   * token: sum over tokens / window tokens. sequence: sum over rows of the row's token mean / window completions.
   * sequenceSum: sum over tokens / window completions. constant: sum over tokens / (completions * maxCompletionTokens).
   */
  readonly reduction: "token" | "sequence" | "sequenceSum" | "constant"
  readonly surrogate: (inputs: SurrogateInputs) => Surrogate
  /** True when the surrogate takes the correction into itself, so that it must not multiply the loss again. */
  readonly ownsCorrection?: boolean
}
