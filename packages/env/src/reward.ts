// The reward protocol. A failed reward is a value of its own kind: it never turns into a zero by itself.
import type { Awaitable } from "./json.ts"
import type { Message, PromptRow } from "./message.ts"

/** What a reward says about one rollout. */
export type RewardResult =
  | { readonly kind: "ok"; readonly value: number; readonly parts?: Readonly<Record<string, number>>; readonly reason?: string }
  /** Leaves the sum and the mean, as if the reward were not configured for this rollout. */
  | { readonly kind: "notApplicable" }
  | { readonly kind: "failed"; readonly error: string; readonly retryable: boolean }

/** A finished rollout as rewards see it. */
export interface ScoredRollout<Row = PromptRow> {
  readonly row: Row
  readonly prompt: string | readonly Message[]
  /** The messages that the rollout added to the prompt, in order. */
  readonly completion: readonly Message[]
  /** Text of the last assistant turn, special tokens removed. */
  readonly text: string
  /** Generated token ids of all turns, stop tokens included. */
  readonly completionIds: Int32Array
  readonly turns: number
  readonly finishReason: "stop" | "length" | "abort"
}

export interface RewardContext {
  /** Aborted at the reward's deadline and when the run stops. */
  readonly signal: AbortSignal
  readonly log: (message: string) => void
  /** Optimizer steps taken so far by the policy that is being trained. */
  readonly policyVersion: number
}

/**
 * Scores rollouts. Give `score` for one rollout at a time, or `scoreGroup` for rewards that compare the completions of one
 * prompt (one result per rollout, same order). A number is `ok`, null is `notApplicable`; what it throws becomes `failed`.
 */
export interface RewardFunction<Row = PromptRow> {
  score?(rollout: ScoredRollout<Row>, ctx: RewardContext): Awaitable<number | null | RewardResult>
  scoreGroup?(rollouts: readonly ScoredRollout<Row>[], ctx: RewardContext): Awaitable<readonly (number | null | RewardResult)[]>
  close?(): Awaitable<void>
}

/** A bare function is a reward too. */
export type RewardLike<Row = PromptRow> = RewardFunction<Row> | NonNullable<RewardFunction<Row>["score"]>
