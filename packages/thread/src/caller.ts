// The side that asks: one promise a call, all of them failed at once when the other side is gone.
import type { CohortError } from "@cohort/errors"
import { type CallMessage, fromPlain, type Port, type ReplyMessage } from "./message.ts"

export interface Caller {
  /**
   * Arguments are copied.
   * @throws CohortError as the other side threw it, or the one given to `fail`
   */
  call<Result>(method: string, ...args: readonly unknown[]): Promise<Result>
  /** Fails every open and later call: the other side is gone. The first error stays. */
  fail(error: CohortError): void
}

/** Calls the methods that `answerCalls` serves at the other end of `port`. */
export function createCaller(port: Port): Caller {
  const open = new Map<number, PromiseWithResolvers<unknown>>()
  let nextId = 0
  let failure: CohortError | undefined
  port.addEventListener("message", (event) => {
    const reply = event.data as ReplyMessage
    const waiter = open.get(reply.id)
    open.delete(reply.id)
    if (reply.ok) waiter?.resolve(reply.value)
    else waiter?.reject(fromPlain(reply.error))
  })
  return {
    call<Result>(method: string, ...args: readonly unknown[]) {
      if (failure !== undefined) return Promise.reject(failure)
      const waiter = Promise.withResolvers<unknown>()
      const id = nextId++
      port.postMessage({ id, method, args } satisfies CallMessage)
      open.set(id, waiter)
      return waiter.promise as Promise<Result>
    },
    fail(error) {
      failure ??= error
      for (const waiter of open.values()) waiter.reject(failure)
      open.clear()
    },
  }
}
