// Splits samples over equal workers (or batches) so that attention, quadratic in length, costs each of them the same.
import { CohortError } from "@cohort/errors"
import { RowHeap } from "./row-heap.ts"

/**
 * Longest first, each sample to the part with the smallest sum of squared lengths that still has room (ties: the lowest index).
 * With at least `parts` samples no part is empty.
 *
 * @param maxPerPart most samples of a part; unlimited when absent.
 * @throws CohortError `internal` when the parts cannot hold all samples.
 * @example
 * balanceBySquares(samplesOfLengths(4, 3, 2, 1), 2) // [[4], [3, 2, 1]]: sums 16 and 14
 */
export function balanceBySquares<S extends { readonly tokenIds: { readonly length: number } }>(samples: readonly S[], parts: number, maxPerPart = Infinity): S[][] {
  return balanceBy(samples, ({ tokenIds }) => tokenIds.length, parts, maxPerPart)
}

/** {@link balanceBySquares} of anything that has a length. */
export function balanceBy<T>(samples: readonly T[], lengthOf: (sample: T) => number, parts: number, maxPerPart: number): T[][] {
  if (samples.length > parts * maxPerPart)
    throw new CohortError("internal", `${samples.length} samples do not fit ${parts} parts of ${maxPerPart}`)
  const members: T[][] = Array.from({ length: parts }, () => [])
  const heap = new RowHeap(parts, Infinity, maxPerPart)
  for (const sample of samples.toSorted((a, b) => lengthOf(b) - lengthOf(a))) members[heap.place(lengthOf(sample))]!.push(sample)
  return members
}
