// GDPO (arXiv 2601.05242): each reward is normalised in its group before they are summed, so that a reward of large scale does
// not drown the others; the sums are then normalised over the batch. The other order, sum then normalise, is `groupAdvantages`.
import { CohortError } from "@cohort/errors"
import { DEFAULT_TOLERANCE, scoredOf } from "./scores.ts"
import type { GroupAdvantages, Scores } from "./scores.ts"
import { spreadOf } from "./spread.ts"
import type { StandardDeviation } from "./spread.ts"

export interface GdpoOptions {
  /** One weight per reward. */
  readonly weights: readonly number[]
  readonly standardDeviation: StandardDeviation
  /** Added to every deviation; 1e-4 in TRL. */
  readonly epsilon: number
  readonly relativeTolerance?: number
}

/**
 * Advantages of groups whose members carry one score per reward: `groups[group][member][reward]`. A reward that does not apply to a member leaves
 * its sum; one that fewer than two members of the group have says nothing and adds 0. A member without any score has no advantage;
 * a group with fewer than two scored members is dropped. `mean` and `deviation` are those of the weighted plain sums.
 *
 * @throws CohortError `config_invalid` when a member's scores do not match the weights, `numeric` for a NaN or infinite score.
 * @example
 * gdpoAdvantages([[[1, 0.2], [0, 0.9]]], { weights: [1, 1], standardDeviation: "sample", epsilon: 1e-4 })
 */
export function gdpoAdvantages(groups: readonly (readonly Scores[])[], options: GdpoOptions): GroupAdvantages[] {
  const tolerance = options.relativeTolerance ?? DEFAULT_TOLERANCE
  for (const [group, members] of groups.entries())
    for (const [member, scores] of members.entries()) checkScores(scores, options.weights.length, `member ${member} in group ${group}`)
  const members = groups.map((group) => {
    const plain = group.map((scores) => weightedSum(scores, options.weights))
    const spread = spreadOf(scoredOf(plain), options.standardDeviation, tolerance)
    const dropped = spread.count < 2
    return { spread, dropped, sums: dropped ? plain.map(() => null) : normalizedSums(group, options, tolerance) }
  })
  const batch = spreadOf(members.flatMap(({ sums }) => scoredOf(sums)), options.standardDeviation, tolerance)
  const normalized = (value: number | null): number | null =>
    value === null ? null : batch.deviation === 0 ? 0 : (value - batch.mean) / (batch.deviation + options.epsilon)
  return members.map(({ spread, dropped, sums }) => ({
    advantages: sums.map(normalized),
    mean: spread.mean,
    deviation: spread.deviation,
    scored: spread.count,
    dropped,
  }))
}

function checkScores(scores: Scores, rewards: number, owner: string): void {
  if (scores.length !== rewards) throw new CohortError("config_invalid", `${owner} has ${scores.length} scores for ${rewards} reward weights`)
  for (const [reward, score] of scores.entries())
    if (score !== null && !Number.isFinite(score)) throw new CohortError("numeric", `reward ${reward} of ${owner} is ${score}`)
}

function weightedSum(scores: Scores, weights: readonly number[]): number | null {
  if (scores.every((score) => score === null)) return null
  return scores.reduce<number>((sum, score, reward) => sum + (score ?? 0) * weights[reward]!, 0)
}

function normalizedSums(group: readonly Scores[], options: GdpoOptions, tolerance: number): (number | null)[] {
  const spreads = options.weights.map((_, reward) => {
    const column = group.map((scores) => scores[reward]!)
    return spreadOf(scoredOf(column), options.standardDeviation, tolerance)
  })
  return group.map((scores) => {
    const normalized = scores.map((score, reward) => {
      const { count, mean, deviation } = spreads[reward]!
      if (score === null) return null
      return count < 2 || deviation === 0 ? 0 : (score - mean) / (deviation + options.epsilon)
    })
    return weightedSum(normalized, options.weights)
  })
}
