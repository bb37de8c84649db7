// Ladders of compiled shapes: few sizes, so that little is compiled, yet close enough that short work stays cheap.

/** Powers of two from `first` up to and including `last`, which need not be one. */
export function ladder(first: number, last: number): readonly number[] {
  const out: number[] = []
  for (let size = Math.min(first, last); size < last; size *= 2) out.push(size)
  out.push(last)
  return out
}

/** The smallest rung that holds `size`; the last one when none does. */
export function rungFor(rungs: readonly number[], size: number): number {
  return rungs.find((rung) => rung >= size) ?? rungs.at(-1)!
}

export interface PromptGroup<Request> {
  readonly requests: readonly Request[]
  /** Padded length of every row. */
  readonly length: number
}

/**
 * Prompts packed into forward calls: neighbours in length share a call, a call holds at most `maxRows` rows and `maxTokens` padded
 * tokens (one row may exceed that alone).
 *
 * @example packPrompts([5, 60], (length) => length, [16, 64], 8, 4096) // two calls, padded to 64 and 16, the longer one first
 */
export function packPrompts<Request>(requests: readonly Request[], lengthOf: (request: Request) => number, rungs: readonly number[], maxRows: number, maxTokens: number): readonly PromptGroup<Request>[] {
  const groups: { requests: Request[]; length: number }[] = []
  for (const request of requests.toSorted((a, b) => lengthOf(b) - lengthOf(a))) {
    const length = rungFor(rungs, lengthOf(request))
    const open = groups.at(-1)
    if (open !== undefined && open.length === length && open.requests.length < maxRows && (open.requests.length + 1) * length <= maxTokens) open.requests.push(request)
    else groups.push({ requests: [request], length })
  }
  return groups
}
