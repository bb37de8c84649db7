// Work of known sizes divided among lanes.

/**
 * Indices of `sizes` in at most `parts` shares of about equal total size, none empty: the largest goes first to the smallest share.
 *
 * @example
 * sharesOf([4, 1, 3, 2], 2) // [[0, 1], [2, 3]]
 */
export function sharesOf(sizes: readonly number[], parts: number): readonly (readonly number[])[] {
  const shares = Array.from({ length: Math.min(parts, sizes.length) }, () => ({ members: [] as number[], total: 0 }))
  for (const index of [...sizes.keys()].toSorted((a, b) => sizes[b]! - sizes[a]!)) {
    const least = shares.reduce((best, share) => (share.total < best.total ? share : best))
    least.members.push(index)
    least.total += sizes[index]!
  }
  return shares.map(({ members }) => members.toSorted((a, b) => a - b))
}
