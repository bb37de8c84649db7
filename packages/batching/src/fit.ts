// A ladder fitted to lengths that were seen, instead of the geometric one: the same number of shapes, less padding.
import type { BatchShape, LadderOptions } from "./ladder.ts"
import { bucketLadder, ladderShapes, roundLength } from "./ladder.ts"

/**
 * At most `maxShapes` shapes whose lengths minimise the padding of samples of `lengths` tokens (exact, by dynamic programming over the distinct rounded
 * lengths of what is forwarded of them). The last shape still reaches `maxLength`, so samples longer than any seen are not dropped. Lengths over the longest shape are ignored.
 * Shapes are compiled steps: fit once, from the lengths of a warm-up, not at every step.
 *
 * @throws CohortError `config_invalid` as {@link bucketLadder} does.
 * @example
 * fitLadder(samples.map(({ tokenIds }) => tokenIds.length), { maxLength: 2048, tokenBudget: 16384 })
 */
export function fitLadder(lengths: readonly number[], options: LadderOptions): BatchShape[] {
  const { length: longest } = bucketLadder(options).at(-1)!
  const counts = new Map<number, number>()
  for (const length of lengths) {
    const inputs = Math.max(0, length - 1)
    const rounded = Math.min(roundLength(Math.max(inputs, options.minLength ?? 1)), longest)
    if (inputs <= longest) counts.set(rounded, (counts.get(rounded) ?? 0) + 1)
  }
  if (!counts.has(longest)) counts.set(longest, 0)
  const distinct = [...counts.keys()].toSorted((a, b) => a - b)
  return ladderShapes(cheapestLengths(distinct, distinct.map((length) => counts.get(length)!), options.maxShapes ?? 8), options)
}

/** The chosen lengths among `distinct` (ascending, the last always chosen) that give the fewest padded tokens with at most `most` of them. */
function cheapestLengths(distinct: readonly number[], counts: readonly number[], most: number): number[] {
  const size = distinct.length
  const before = [0]
  for (const count of counts) before.push(before.at(-1)! + count)
  // best[k][j]: tokens when the first j lengths are covered by k shapes, the largest being distinct[j - 1].
  const best = Array.from({ length: most + 1 }, () => new Float64Array(size + 1).fill(Infinity))
  const from = Array.from({ length: most + 1 }, () => new Int32Array(size + 1))
  best[0]![0] = 0
  for (let shapes = 1; shapes <= most; shapes++)
    for (let end = 1; end <= size; end++)
      for (let start = 0; start < end; start++) {
        const tokens = best[shapes - 1]![start]! + (before[end]! - before[start]!) * distinct[end - 1]!
        if (tokens < best[shapes]![end]!) {
          best[shapes]![end] = tokens
          from[shapes]![end] = start
        }
      }
  let shapes = 1
  for (let candidate = 2; candidate <= most; candidate++) if (best[candidate]![size]! < best[shapes]![size]!) shapes = candidate
  const chosen: number[] = []
  for (let end = size; end > 0; end = from[shapes--]![end]!) chosen.unshift(distinct[end - 1]!)
  return chosen
}
