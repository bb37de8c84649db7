// The entropy above which tokens are trained when only the most uncertain share is (Wang et al., arXiv 2506.01939).
import { CohortError } from "@cohort/errors"

/**
 * The (1 - share) quantile of the entropies of all trained tokens of an optimizer window, interpolated linearly. It goes into
 * `ObjectiveSpec.entropyThreshold`; tokens at or above it take the loss.
 *
 * @throws CohortError `config_invalid` for a share outside (0, 1], `numeric` without entropies or with a NaN among them.
 * @example
 * entropyThreshold([0.1, 0.2, 0.9, 1.4], 0.25) // 1.025
 */
export function entropyThreshold(entropies: ArrayLike<number>, share: number): number {
  if (!(share > 0 && share <= 1))
    throw new CohortError("config_invalid", `share of high-entropy tokens is ${share}`, { hint: "Use a share above 0 and up to 1, such as 0.2." })
  const sorted = Float64Array.from(entropies).toSorted()
  // NaN sorts last.
  if (sorted.length === 0 || Number.isNaN(sorted.at(-1)!))
    throw new CohortError("numeric", sorted.length === 0 ? "no entropies of trained tokens" : "an entropy is NaN")
  const position = (1 - share) * (sorted.length - 1)
  const below = Math.floor(position)
  const above = Math.min(below + 1, sorted.length - 1)
  return sorted[below]! + (sorted[above]! - sorted[below]!) * (position - below)
}

/**
 * The tokens at or above {@link entropyThreshold}: how many, and a threshold half-way between the lowest of them and the highest of the others. It picks the
 * same tokens, also where their entropies are computed again with another rounding.
 *
 * @throws CohortError as `entropyThreshold`
 * @example
 * topEntropy([0.1, 0.2, 0.9, 1.4], 0.25) // { threshold: 1.15, tokens: 1 }
 */
export function topEntropy(entropies: ArrayLike<number>, share: number): { readonly threshold: number; readonly tokens: number } {
  const quantile = entropyThreshold(entropies, share)
  let tokens = 0
  let lowest = Infinity
  let highest = -Infinity
  for (let index = 0; index < entropies.length; index++) {
    const entropy = entropies[index]!
    if (entropy >= quantile) {
      tokens++
      lowest = Math.min(lowest, entropy)
    } else highest = Math.max(highest, entropy)
  }
  // Nothing is left out: an entropy is never under 0 but for rounding.
  return { threshold: highest === -Infinity ? -1 : (lowest + highest) / 2, tokens }
}
