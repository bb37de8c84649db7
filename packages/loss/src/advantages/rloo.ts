// RLOO: each completion is judged against the mean of the others of its group (Ahmadian et al., arXiv 2402.14740, eq. 7).
import { DEFAULT_TOLERANCE, requireFiniteRewards, scoredOf } from "./scores.ts"
import type { GroupAdvantages, Scores } from "./scores.ts"
import { spreadOf } from "./spread.ts"

/**
 * reward - mean of the other scored members, which is n / (n - 1) times the centred reward. No division by a deviation.
 *
 * @throws CohortError `numeric` for a NaN or infinite reward.
 * @example
 * rlooAdvantages([[1, 0, 0]])[0].advantages // [1, -0.5, -0.5]
 */
export function rlooAdvantages(groups: readonly Scores[], relativeTolerance = DEFAULT_TOLERANCE): GroupAdvantages[] {
  requireFiniteRewards(groups)
  return groups.map((scores) => {
    const { count, mean, deviation } = spreadOf(scoredOf(scores), "sample", relativeTolerance)
    const dropped = count < 2
    const advantageOf = (score: number | null): number | null => {
      if (score === null || dropped) return null
      return deviation === 0 ? 0 : ((score - mean) * count) / (count - 1)
    }
    return { advantages: scores.map(advantageOf), mean, deviation, scored: count, dropped }
  })
}
