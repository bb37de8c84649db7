// The completions of one request, as sequences in the scheduler's queue.
import { toCohortError, type CohortError } from "@cohort/errors"

import { createOutputText, type OutputText } from "./output-text.ts"
import type { EngineRequest } from "./request.ts"
import type { Scheduler } from "./scheduler.ts"
import type { Sequence } from "./sequence.ts"
import type { EngineTokenizer } from "./tokenizer.ts"

export interface Children {
  readonly sequences: readonly Sequence[]
  /** One per sequence; undefined where nobody wants text. */
  readonly texts: readonly (OutputText | undefined)[]
}

export interface ChildrenOptions {
  readonly scheduler: Scheduler
  readonly tokenizer: EngineTokenizer
  readonly random: () => number
  /** A tokenizer that cannot decode a token ends this request alone, not the engine. */
  readonly onTextFailure: (error: CohortError) => void
}

/**
 * Queues `n` sequences: child i draws with seed + i, or with a seed of its own when none is given.
 * Throws `inference_rejected` when the prompt leaves no room.
 */
export function queueChildren(request: EngineRequest, options: ChildrenOptions): Children {
  const { scheduler, tokenizer, random } = options
  const stopTokens = new Map<number, number | null>()
  for (const id of request.stopTokenIds ?? []) stopTokens.set(id, id)
  if (!request.ignoreEos) tokenizer.eosTokenIds.forEach((id, index) => stopTokens.set(id, index === 0 ? null : id))
  const stop = request.stop ?? []
  const wantsText = request.text === true || stop.length > 0
  const texts: (OutputText | undefined)[] = []
  const sequences = Array.from({ length: request.n }, (_, index) => {
    const text = wantsText
      ? createOutputText(tokenizer, { stop, includeStop: request.includeStop ?? false, skipSpecialTokens: request.skipSpecialTokens ?? true, minTokens: request.minTokens ?? 0 })
      : undefined
    texts.push(text)
    return scheduler.add({
      promptIds: request.promptIds,
      maxTokens: request.maxTokens ?? scheduler.contextLength,
      minTokens: request.minTokens ?? 0,
      temperature: request.temperature,
      topP: request.topP,
      topK: request.topK,
      minP: request.minP,
      repetitionPenalty: request.repetitionPenalty,
      seed: request.seed === undefined ? Math.floor(random() * 2 ** 32) : (request.seed + index) >>> 0,
      stopTokens,
      topLogProbs: request.topLogProbs ?? 0,
      ...(text === undefined ? {} : { watch: guarded(text, options) }),
    })
  })
  return { sequences, texts }
}

function guarded(text: OutputText, { onTextFailure }: ChildrenOptions): OutputText["push"] {
  return (tokenId, stopped) => {
    try {
      return text.push(tokenId, stopped)
    } catch (cause) {
      onTextFailure(toCohortError(cause, "inference_failed", `Decoding token ${tokenId} failed`))
      return undefined
    }
  }
}
