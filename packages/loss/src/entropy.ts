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
