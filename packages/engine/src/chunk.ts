// How many tokens one native decode call should make: long calls are cheap per token, but whatever lies past
// a sequence's end is computed for nothing, and nobody can join while a call runs.

export interface ChunkQuestion {
  /** Compiled lengths, ascending. */
  readonly chunkSizes: readonly number[]
  /** Tokens each running sequence still may make (max_tokens or context end). */
  readonly remaining: readonly number[]
  /** Longest call that stays inside every sequence's cache. */
  readonly longest: number
  /** Probability that a token ends its sequence, learned from the run. */
  readonly stopRate: number
  /** Somebody waits for a slot. */
  readonly waiting: boolean
}

/** Fixed cost of a call, in decode steps, when nobody waits and when somebody does (a late join costs more than the call). */
const overheadSteps = { quiet: 2, waiting: 0.25 }

/**
 * The compiled chunk length with the most expected useful tokens per cost, where a call of `s` steps costs `s + overhead`
 * and row i is useful for its first min(s, remaining) steps, discounted by the stop rate.
 * The shortest chunk is always allowed.
 *
 * @example
 * chooseChunk({ chunkSizes: [1, 8], remaining: [3], longest: 100, stopRate: 0, waiting: false }) // 1
 */
export function chooseChunk(question: ChunkQuestion): number {
  const overhead = question.waiting ? overheadSteps.waiting : overheadSteps.quiet
  const keep = 1 - Math.min(Math.max(question.stopRate, 0), 0.999)
  let best = question.chunkSizes[0]!
  let bestWorth = 0
  for (const steps of question.chunkSizes) {
    if (steps > question.longest) break
    const useful = question.remaining.reduce((sum, left) => sum + expectedTokens(Math.min(steps, left), keep), 0)
    const worth = useful / (steps + overhead)
    if (worth > bestWorth) {
      bestWorth = worth
      best = steps
    }
  }
  return best
}

/** Sum of keep^t for t below `steps`: the tokens expected before a stop. */
function expectedTokens(steps: number, keep: number): number {
  return keep === 1 ? steps : (1 - keep ** steps) / (1 - keep)
}
