// Several rewards of one completion become one number. A failed reward is never a zero: the rule decides.
import { CohortError } from "@cohort/errors"

/** What one reward said about one completion; the same shape as the environment protocol's reward result. */
export type RewardOutcome =
  | { readonly kind: "ok"; readonly value: number; readonly parts?: Readonly<Record<string, number>> }
  | { readonly kind: "notApplicable" }
  | { readonly kind: "failed"; readonly error: string; readonly retryable?: boolean }

export interface CombineRule {
  /** One weight per reward, in order; all 1 when absent. */
  readonly weights?: readonly number[]
  /** "sum": weighted sum of those that apply. "mean": divided by the weights of those that apply. Default "sum". */
  readonly combine?: "sum" | "mean"
  /**
   * What one failed reward does. "drop" (default): the completion has no reward and leaves its group. "ignore": the reward
   * is left out like one that does not apply. "abort": throws.
   */
  readonly onFailed?: "drop" | "ignore" | "abort"
}

export interface CombinedReward {
  /** Null: no reward, the completion leaves its group's mean and deviation. */
  readonly value: number | null
  /** Unweighted value per reward, null where it did not apply or failed. */
  readonly values: readonly (number | null)[]
  readonly errors: readonly string[]
}

/**
 * Combines the results of all rewards for one completion.
 *
 * @throws CohortError `numeric` when a value is NaN or infinite, `reward_failed` under "abort", `config_invalid` when the
 *   number of weights is not the number of rewards.
 * @example
 * combineRewards([{ kind: "ok", value: 1 }, { kind: "notApplicable" }], { weights: [2, 1] }).value // 2
 */
export function combineRewards(results: readonly RewardOutcome[], rule: CombineRule = {}): CombinedReward {
  const weights = rule.weights ?? results.map(() => 1)
  if (weights.length !== results.length)
    throw new CohortError("config_invalid", `${weights.length} reward weights for ${results.length} rewards`, {
      hint: "Give one weight per reward, in the same order.",
    })
  const values = results.map(valueOf)
  const errors = results.flatMap((result) => (result.kind === "failed" ? [result.error] : []))
  if (errors.length > 0 && rule.onFailed === "abort")
    throw new CohortError("reward_failed", `a reward failed: ${errors.join("; ")}`, {
      hint: 'Set the rule for failed rewards to "drop" to train on without the completion.',
    })
  const applies = values.some((value) => value !== null)
  const dropped = errors.length > 0 && (rule.onFailed ?? "drop") === "drop"
  if (!applies || dropped) return { value: null, values, errors }
  const sum = values.reduce<number>((total, value, index) => total + (value ?? 0) * weights[index]!, 0)
  const weight = values.reduce<number>((total, value, index) => total + (value === null ? 0 : weights[index]!), 0)
  if (rule.combine !== "mean") return { value: sum, values, errors }
  return { value: weight === 0 ? null : sum / weight, values, errors }
}

function valueOf(result: RewardOutcome, index: number): number | null {
  if (result.kind !== "ok") return null
  if (!Number.isFinite(result.value))
    throw new CohortError("numeric", `reward ${index} returned ${result.value}`, {
      hint: "Return null for a reward that does not apply.",
      details: { reward: index, value: String(result.value) },
    })
  return result.value
}
