// One HTTP generation: all prompts of the request submitted together, collected or streamed, and ended together.
import type { Context } from "hono"

import type { Completion, Delta, EngineRequest, Submission } from "../request.ts"
import type { Api } from "./api.ts"

/** A delta of prompt `prompt`; its `index` is already the choice's index in the answer. */
export interface ChoiceDelta extends Delta {
  readonly prompt: number
}

export interface Job {
  /** Completions per prompt, `index` counted through. */
  collect(): Promise<readonly (readonly Completion[])[]>
  /** Deltas of all prompts as they come. Leaving the loop ends the request. */
  stream(): AsyncGenerator<ChoiceDelta>
}

/**
 * Submits every request of one HTTP call; the client's leaving, or one that fails, ends all of them.
 * Throws what the engine throws, with nothing left queued.
 */
export function startJob(api: Api, context: Context, requests: readonly EngineRequest[]): Job {
  const ending = new AbortController()
  const signal = AbortSignal.any([context.req.raw.signal, ending.signal])
  const submissions: Submission[] = []
  try {
    for (const request of requests) submissions.push(api.engine.submit({ ...request, signal }))
  } catch (error) {
    ending.abort(error)
    throw error
  }
  api.load++
  const results = Promise.all(submissions.map((submission) => submission.result))
  const settled = () => void api.load--
  results.then(settled, settled)
  // One failed prompt ends the others: nobody would read them.
  results.catch((error: unknown) => ending.abort(error))
  const indexed = <Item extends { readonly index: number }>(item: Item, prompt: number): Item => ({ ...item, index: prompt * requests[prompt]!.n + item.index })

  return {
    async collect() {
      return (await results).map((completions, prompt) => completions.map((completion) => indexed(completion, prompt)))
    },
    async *stream() {
      const sources = submissions.map((submission, prompt) => ({ prompt, iterator: submission.deltas()[Symbol.asyncIterator]() }))
      const pull = async (source: (typeof sources)[number]) => ({ source, next: await source.iterator.next() })
      const pending = new Map(sources.map((source) => [source, pull(source)]))
      try {
        while (pending.size > 0) {
          const { source, next } = await Promise.race(pending.values())
          if (next.done) pending.delete(source)
          else {
            pending.set(source, pull(source))
            yield { ...indexed(next.value, source.prompt), prompt: source.prompt }
          }
        }
      } finally {
        ending.abort()
        await Promise.allSettled(pending.values())
      }
    },
  }
}

/** Base of a request's id: the header wins over the body, as in vLLM. */
export function requestBase(api: Api, context: Context, fromBody: string | undefined): string {
  return context.req.header("x-request-id") ?? fromBody ?? api.newId()
}

export interface Usage {
  readonly prompt_tokens: number
  readonly total_tokens: number
  readonly completion_tokens: number
}

export function usageOf(promptTokens: number, completionTokens: number): Usage {
  return { prompt_tokens: promptTokens, total_tokens: promptTokens + completionTokens, completion_tokens: completionTokens }
}

/** Usage of a whole answer, with the details that this engine does not have. */
export function fullUsage(promptTokens: number, completionTokens: number) {
  return { ...usageOf(promptTokens, completionTokens), prompt_tokens_details: null, completion_tokens_details: null }
}

export const sumOf = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
