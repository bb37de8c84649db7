// How many tokens one native decode call should make: long calls are cheap per token, but whatever lies past
// a sequence's end is computed for nothing, and nobody can join while a call runs.

export interface ChunkQuestion {
  /** Compiled lengths, ascending. */
  readonly chunkSizes: readonly number[]
  readonly rows: readonly {
    /** Tokens made so far. */
    readonly made: number
    /** Tokens that may still be made (max_tokens or context end). */
    readonly left: number
  }[]
  /** Longest call that stays inside every sequence's cache. */
  readonly longest: number
  /** Probability that the token after `made` ends its sequence, learned from the run. */
  readonly stopRate: (made: number) => number
}

/** Fixed cost of a call, in decode steps: reading and writing the cache, sampling's arrays, a turn of the event loop. */
const overheadSteps = 1

/**
 * The compiled chunk length with the most expected useful tokens per cost, where a call of `s` steps costs `s + overhead`
 * and a row's step is useful as far as its sequence has not ended before. The shortest chunk is always allowed.
 *
 * @example
 * chooseChunk({ chunkSizes: [1, 8], rows: [{ made: 5, left: 3 }], longest: 100, stopRate: () => 0 }) // 1
 */
export function chooseChunk({ chunkSizes, rows, longest, stopRate }: ChunkQuestion): number {
  const allowed = chunkSizes.filter((steps) => steps <= longest)
  const most = allowed.at(-1)
  if (most === undefined) return chunkSizes[0]!
  const byLength = new Map<number, Float64Array>()
  for (const { made } of rows) if (!byLength.has(made)) byLength.set(made, expectedTokens(made, most, stopRate))
  const worth = (steps: number): number => rows.reduce((sum, { made, left }) => sum + byLength.get(made)![Math.min(steps, left)]!, 0) / (steps + overheadSteps)
  return allowed.reduce((best, steps) => (worth(steps) > worth(best) ? steps : best))
}

/** Entry s: tokens expected from the next s steps of a sequence that has made `made`. */
function expectedTokens(made: number, steps: number, stopRate: (made: number) => number): Float64Array {
  const expected = new Float64Array(steps + 1)
  let alive = 1
  for (let step = 0; step < steps; step++) {
    expected[step + 1] = expected[step]! + alive
    alive *= 1 - stopRate(made + step)
  }
  return expected
}
