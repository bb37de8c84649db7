// The shapes that a run may come to use: few enough to try each, close enough that one of them pads little.
import { type BatchShape, type LadderOptions, ladderShapes, longestInputs, roundLength } from "./ladder.ts"

/** Lengths of neighbouring candidates, each over the other; packed rows are full at any length, but in lanes there are fewer numbers of them. */
const RATIO = { rows: 2 ** 0.2, packed: 2 ** 0.25, packedInLanes: 2 ** 0.125 }
const SHORTEST = 16
/** Packed rows of a few completions are full at some length and half empty at the next: up to here each is tried. */
const EACH_UP_TO = 128

/** Packed rows are at most this long, unless one sample is longer: attention grows with the square, and rows of this length are full already. */
export const LONGEST_PACKED = 4096

export interface CandidateOptions extends LadderOptions {
  readonly packed: boolean
  readonly lanes: number
}

/**
 * Lengths up to the longest sample that may be trained (or of rows that hold several), each with all rows that the budget allows, and with fewer
 * for steps and remainders that are smaller. With a fixed number of rows there are no such parts.
 *
 * @param options limits of one lane: the rows of the shapes are those of `lanes` together
 */
export function candidateShapes({ packed, lanes, ...options }: CandidateOptions): BatchShape[] {
  const budget = options.tokenBudget ?? Infinity
  const longest = packed ? Math.min(budget, Math.max(longestInputs(options), LONGEST_PACKED)) : longestInputs(options)
  // Rounding up must not lift the last length over the budget.
  const lengths = new Set([roundLength(longest) <= budget ? roundLength(longest) : longest])
  // Rounded first: a power of the ratio may come out a hair above a whole length.
  const ratio = !packed ? RATIO.rows : lanes === 1 ? RATIO.packed : RATIO.packedInLanes
  for (let step = 0; ; step++) {
    const length = roundLength(Math.round(SHORTEST * ratio ** step))
    if (length >= longest) break
    lengths.add(length)
  }
  if (packed) for (let length = SHORTEST; length < Math.min(longest, EACH_UP_TO); length = roundLength(length + 1)) lengths.add(length)
  const full = ladderShapes([...lengths].toSorted((a, b) => a - b), options)
  if (options.rowsPerBatch !== undefined) return full
  return full.flatMap(({ rows, length }) => partsOf(rows).map((part) => ({ rows: part * lanes, length })))
}

/** Halves of halves of `rows`, and the powers of two below: completions of a step and of a group mostly are such numbers. */
function partsOf(rows: number): number[] {
  const parts = new Set<number>()
  for (let part = rows; part >= 1; part = Math.floor(part / 2)) parts.add(part).add(2 ** Math.floor(Math.log2(part)))
  return [...parts]
}
