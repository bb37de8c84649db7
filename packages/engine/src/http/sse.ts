// Server-sent events: one `data:` line per object, an error as an event, `[DONE]` at the end, as OpenAI's clients expect.
import { errorBody, toApiError } from "./errors.ts"

/**
 * Streams `events`. The reader's leaving ends the iteration (and with it the request behind it); an error after the start
 * arrives as an event with an `error` key, since the status has been sent.
 */
export function eventStream(events: AsyncIterable<object>): Response {
  const encoder = new TextEncoder()
  const iterator = events[Symbol.asyncIterator]()
  const line = (data: string) => encoder.encode(`data: ${data}\n\n`)
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next = await iterator.next()
        if (!next.done) return controller.enqueue(line(JSON.stringify(next.value)))
      } catch (error) {
        controller.enqueue(line(JSON.stringify(errorBody(toApiError(error)))))
      }
      controller.enqueue(line("[DONE]"))
      controller.close()
    },
    async cancel() {
      await iterator.return?.()
    },
  })
  return new Response(body, { headers: { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" } })
}
