// The side that computes: answers calls with its methods, in their order, so that none sees another half done.
import { CohortError, type CohortErrorCode } from "@cohort/errors"
import { buffersOf, type CallMessage, type Port, type ReplyMessage, toPlain } from "./message.ts"

/** Methods by name. Arguments and results are structured-cloneable. */
export type Handlers = Readonly<Record<string, (...args: never[]) => unknown>>

/**
 * Answers calls from `port`, one after the other. Results give up their arrays: whoever needs one later returns a copy.
 *
 * @param unknownCode code of what a method throws untyped
 * @example
 * answerCalls(globalThis as unknown as Port, { add: (a: number, b: number) => a + b })
 */
export function answerCalls(port: Port, handlers: Handlers, unknownCode: CohortErrorCode = "internal"): void {
  const answer = async ({ id, method, args }: CallMessage): Promise<void> => {
    try {
      const handler = handlers[method]
      if (handler === undefined) throw new CohortError("internal", `this thread has no method ${method}`)
      const value = await handler(...(args as never[]))
      port.postMessage({ id, ok: true, value } satisfies ReplyMessage, buffersOf(value))
    } catch (thrown) {
      port.postMessage({ id, ok: false, error: toPlain(thrown, unknownCode) } satisfies ReplyMessage)
    }
  }
  let last: Promise<void> = Promise.resolve()
  port.addEventListener("message", (event) => {
    last = last.then(() => answer(event.data as CallMessage))
  })
}
