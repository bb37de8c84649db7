// Group-relative advantages: a completion is judged against the other completions of its prompt.
import { DEFAULT_TOLERANCE, requireFiniteRewards, scoredOf } from "./scores.ts"
import type { GroupAdvantages, Scores } from "./scores.ts"
import { spreadOf } from "./spread.ts"
import type { Spread, StandardDeviation } from "./spread.ts"

export interface AdvantageOptions {
  /** What centred rewards are divided by: the group's deviation, that of all rewards of the batch, or nothing. */
  readonly scale: "group" | "batch" | "none"
  readonly standardDeviation: StandardDeviation
  /** Added to the deviation. TRL: 1e-4 with "sample" (sync), 1e-8 with "population" (async). */
  readonly epsilon: number
  /** A deviation under this share of the largest |reward| counts as zero; 1e-6 when absent. */
  readonly relativeTolerance?: number
}

/**
 * Advantages (reward - group mean) / (deviation + epsilon) of each group (DeepSeekMath eq. 3; "none" is Dr. GRPO's form).
 * Null rewards (failed, not applicable) leave mean and deviation. With "batch" the deviation is that of all scored rewards
 * of the groups that are kept. Unanimous groups get exact zeros under every scale.
 *
 * @throws CohortError `numeric` for a NaN or infinite reward.
 * @example
 * groupAdvantages([[1, 0, null]], { scale: "group", standardDeviation: "sample", epsilon: 1e-4 })[0].advantages
 * // [0.707, -0.707, null]
 */
export function groupAdvantages(groups: readonly Scores[], options: AdvantageOptions): GroupAdvantages[] {
  requireFiniteRewards(groups)
  const tolerance = options.relativeTolerance ?? DEFAULT_TOLERANCE
  const spreads = groups.map((rewards) => spreadOf(scoredOf(rewards), options.standardDeviation, tolerance))
  const kept = groups.filter((_, index) => spreads[index]!.count >= 2)
  const batch = spreadOf(kept.flatMap(scoredOf), options.standardDeviation, tolerance)
  return groups.map((rewards, index) => {
    const spread = spreads[index]!
    const dropped = spread.count < 2
    const divisor = divisorOf(options, spread, batch)
    const advantageOf = (reward: number | null): number | null => {
      if (reward === null || dropped) return null
      return spread.deviation === 0 ? 0 : (reward - spread.mean) / divisor
    }
    return { advantages: rewards.map(advantageOf), mean: spread.mean, deviation: spread.deviation, scored: spread.count, dropped }
  })
}

function divisorOf(options: AdvantageOptions, group: Spread, batch: Spread): number {
  if (options.scale === "none") return 1
  return (options.scale === "group" ? group.deviation : batch.deviation) + options.epsilon
}
