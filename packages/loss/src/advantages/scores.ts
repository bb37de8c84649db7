// Rewards as the advantage estimators take them, and what they give back.
import { CohortError } from "@cohort/errors"

/** Rewards of one group; null where a member has none (failed, not applicable). */
export type Scores = readonly (number | null)[]

/** A deviation at or under this share of the largest |reward| is rounding residue. */
export const DEFAULT_TOLERANCE = 1e-6

export interface GroupAdvantages {
  /** Same order as the rewards; null where the reward was null, and everywhere in a dropped group. */
  readonly advantages: readonly (number | null)[]
  readonly mean: number
  /** Standard deviation of the scored members; 0 when they are unanimous up to rounding. */
  readonly deviation: number
  readonly scored: number
  /** Fewer than two scored members: there is nothing to compare with. */
  readonly dropped: boolean
}

/** Refuses NaN and infinities by name of their place; nulls pass. */
export function requireFiniteRewards(groups: readonly Scores[]): void {
  for (const [group, rewards] of groups.entries())
    for (const [member, reward] of rewards.entries())
      if (reward !== null && !Number.isFinite(reward))
        throw new CohortError("numeric", `reward of member ${member} in group ${group} is ${reward}`, {
          hint: "Return null for a reward that does not apply, or a failed result for one that broke.",
          details: { group, member, value: String(reward) },
        })
}

export const scoredOf = (scores: Scores): number[] => scores.filter((score) => score !== null)
