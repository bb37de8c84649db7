// "Did you mean": the name closest to a misspelt one, if any is close.

/**
 * The candidate with the fewest edits (insert, delete, replace, swap of neighbours); undefined where it would take more than a
 * third of the longer name.
 *
 * @example nearest("reward-maht", ["reward-math", "reward-format"]) // "reward-math"
 */
export function nearest(name: string, candidates: readonly string[]): string | undefined {
  let best: string | undefined
  let bestEdits = Number.POSITIVE_INFINITY
  for (const candidate of candidates) {
    const edits = editDistance(name, candidate)
    if (edits < bestEdits && edits <= Math.max(1, Math.floor(Math.max(name.length, candidate.length) / 3))) {
      best = candidate
      bestEdits = edits
    }
  }
  return best
}

/** A sentence to append to an error, or "". */
export function didYouMean(name: string, candidates: readonly string[]): string {
  const found = nearest(name, candidates)
  return found === undefined ? "" : ` Did you mean ${JSON.stringify(found)}?`
}

/** Optimal string alignment distance, three rows at a time. */
function editDistance(a: string, b: string): number {
  let before: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      let edits = Math.min(replaced, previous[j]! + 1, row[j - 1]! + 1)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) edits = Math.min(edits, before[j - 2]! + 1)
      row.push(edits)
    }
    before = previous
    previous = row
  }
  return previous[b.length]!
}
