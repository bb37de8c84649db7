// The shape that every objective fills in: which ratio, which surrogate, which reduction.
import type { Tensor, Tensor2D } from "@tensorflow/tfjs-core"
import type { ObjectiveKind, ObjectiveSpec, RatioLevel } from "../objective.ts"
import type { ScalarOf } from "../scalars.ts"
import type { Tokens } from "../tokens.ts"

/** What a surrogate is computed from. */
export interface SurrogateInputs {
  readonly tokens: Tokens
  /** exp of the log-ratio: [R, L] per token; per sequence [R, 1], or [R, L] where a row holds several sequences. */
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
  readonly level: RatioLevel
  /** True where another level would be another objective. */
  readonly levelFixed?: boolean
  /** True where `delta` bounds the unclipped product. */
  readonly clips?: boolean
  /**
   * token: sum over tokens / window tokens. sequence: sum over sequences of their token mean / window completions.
   * sequenceSum: sum over tokens / window completions. constant: sum over tokens / (completions * maxCompletionTokens).
   */
  readonly reduction: "token" | "sequence" | "sequenceSum" | "constant"
  readonly surrogate: (inputs: SurrogateInputs) => Surrogate
  /** True when the surrogate takes the correction into itself, so that it must not multiply the loss again. */
  readonly ownsCorrection?: boolean
}
