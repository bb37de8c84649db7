// Log-probs in the three spellings of the protocol: completions (parallel lists), chat (objects with bytes), generate (ids and ranks).
import type { EngineTokenizer } from "../tokenizer.ts"
import type { TopTokens } from "../sequence.ts"

/** Drawn tokens with what is known of each step; `topTokens` is empty when none were asked for. */
export interface DrawnTokens {
  readonly tokenIds: readonly number[]
  readonly logProbs: readonly number[]
  readonly topTokens: readonly TopTokens[]
}

export interface TokenSpelling {
  readonly tokenizer: EngineTokenizer
  readonly asIds: boolean
}

interface Candidate {
  readonly tokenId: number
  readonly logProb: number
  /** Place among the most likely, from 1; null where the engine does not know it. */
  readonly rank: number | null
}

/** JSON has no infinity; the protocol's value for a token that was filtered out. */
const finite = (logProb: number) => Math.max(logProb, -9999)

/** The drawn token, then the `wanted` most likely without it. */
function candidates(drawn: DrawnTokens, step: number, wanted: number): readonly Candidate[] {
  const tokenId = drawn.tokenIds[step]!
  const top = drawn.topTokens[step]
  const ids = top?.tokenIds.slice(0, wanted) ?? []
  const place = ids.indexOf(tokenId)
  const own = { tokenId, logProb: finite(drawn.logProbs[step]!), rank: place < 0 ? null : place + 1 }
  const others = ids.map((id, index) => ({ tokenId: id, logProb: finite(top!.logProbs[index]!), rank: index + 1 }))
  return [own, ...others.filter((other) => other.tokenId !== tokenId)]
}

function textOf({ tokenizer }: TokenSpelling, tokenId: number): string {
  return tokenizer.decode([tokenId], { skipSpecialTokens: false })
}

function spelled(spelling: TokenSpelling, tokenId: number): string {
  return spelling.asIds ? `token_id:${tokenId}` : textOf(spelling, tokenId)
}

/** `logprobs` of a completions choice; `startOffset` is where a stream's earlier chunks ended. */
export function completionLogProbs(spelling: TokenSpelling, drawn: DrawnTokens, wanted: number, startOffset = 0) {
  const tokens = drawn.tokenIds.map((id) => spelled(spelling, id))
  let offset = startOffset
  const textOffset = tokens.map((token) => {
    const start = offset
    offset += token.length
    return start
  })
  return {
    text_offset: textOffset,
    token_logprobs: drawn.logProbs.map(finite),
    tokens,
    top_logprobs: tokens.map((_, step) => {
      const entries: Record<string, number> = {}
      for (const { tokenId, logProb } of candidates(drawn, step, wanted)) entries[spelled(spelling, tokenId)] ??= logProb
      return entries
    }),
  }
}

/** Length of the token strings, which is how far `text_offset` moved. */
export function spelledLength(spelling: TokenSpelling, tokenIds: readonly number[]): number {
  return tokenIds.reduce((sum, id) => sum + spelled(spelling, id).length, 0)
}

export function chatLogProbs(spelling: TokenSpelling, drawn: DrawnTokens, wanted: number) {
  const utf8 = (text: string) => [...new TextEncoder().encode(text)]
  return {
    content: drawn.tokenIds.map((tokenId, step) => ({
      token: spelled(spelling, tokenId),
      logprob: finite(drawn.logProbs[step]!),
      bytes: utf8(textOf(spelling, tokenId)),
      top_logprobs: candidates(drawn, step, wanted)
        .slice(0, wanted)
        .map((candidate) => ({ token: spelled(spelling, candidate.tokenId), logprob: candidate.logProb, bytes: utf8(spelled(spelling, candidate.tokenId)) })),
    })),
  }
}

export function generateLogProbs(drawn: DrawnTokens, wanted: number) {
  const entry = ({ tokenId, logProb, rank }: Candidate) => ({ token_id: tokenId, logprob: logProb, rank })
  return {
    content: drawn.tokenIds.map((_, step) => {
      const all = candidates(drawn, step, wanted)
      return { ...entry(all[0]!), top_logprobs: all.map(entry) }
    }),
  }
}

/** `prompt_logprobs`: null for the first token, then one entry per token. */
export function promptLogProbs(spelling: TokenSpelling, promptIds: Int32Array, logProbs: Float32Array) {
  return Array.from(promptIds, (tokenId, index) =>
    index === 0 ? null : { [tokenId]: { logprob: finite(logProbs[index]!), rank: null, decoded_token: textOf(spelling, tokenId) } },
  )
}
