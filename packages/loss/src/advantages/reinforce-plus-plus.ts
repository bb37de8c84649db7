// REINFORCE++ (arXiv 2501.03262): advantages normalised over the whole batch instead of the group.
import { DEFAULT_TOLERANCE, requireFiniteRewards, scoredOf } from "./scores.ts"
import type { GroupAdvantages, Scores } from "./scores.ts"
import { spreadOf } from "./spread.ts"
import type { StandardDeviation } from "./spread.ts"

export interface ReinforcePlusPlusOptions {
  /** "none": rewards as they are (REINFORCE++). "group": the group mean is taken off first (REINFORCE++-baseline). */
  readonly baseline: "none" | "group"
  readonly standardDeviation: StandardDeviation
  /** Added to the batch's deviation; the paper's code uses 1e-8. */
  readonly epsilon: number
  readonly relativeTolerance?: number
}

/**
 * (x - batch mean) / (batch deviation + epsilon), x the reward or the reward less its group's mean. A group of one has no baseline,
 * so it is dropped with "group" and kept with "none". A batch without spread gets exact zeros.
 *
 * @throws CohortError `numeric` for a NaN or infinite reward.
 * @example
 * reinforcePlusPlusAdvantages([[1, 0], [1, 1]], { baseline: "group", standardDeviation: "population", epsilon: 1e-8 })
 */
export function reinforcePlusPlusAdvantages(groups: readonly Scores[], options: ReinforcePlusPlusOptions): GroupAdvantages[] {
  requireFiniteRewards(groups)
  const tolerance = options.relativeTolerance ?? DEFAULT_TOLERANCE
  const fewest = options.baseline === "group" ? 2 : 1
  const members = groups.map((scores) => {
    const spread = spreadOf(scoredOf(scores), options.standardDeviation, tolerance)
    const dropped = spread.count < fewest
    const baselined = (score: number | null): number | null => {
      if (score === null || dropped) return null
      if (options.baseline === "none") return score
      return spread.deviation === 0 ? 0 : score - spread.mean
    }
    return { spread, dropped, values: scores.map(baselined) }
  })
  const batch = spreadOf(members.flatMap(({ values }) => scoredOf(values)), options.standardDeviation, tolerance)
  const normalized = (value: number | null): number | null =>
    value === null ? null : batch.deviation === 0 ? 0 : (value - batch.mean) / (batch.deviation + options.epsilon)
  return members.map(({ spread, dropped, values }) => ({
    advantages: values.map(normalized),
    mean: spread.mean,
    deviation: spread.deviation,
    scored: spread.count,
    dropped,
  }))
}
