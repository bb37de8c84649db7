// A thread with calls into it: when it dies, whoever waits for it hears why.
import { CohortError } from "@cohort/errors"
import { type Caller, createCaller } from "./caller.ts"

export interface CallThread extends Caller {
  /** Ends the thread; open and later calls fail with `worker_failed`. Once. */
  end(): void
}

/**
 * Calls into `worker`, whose program calls `answerCalls`. When it throws outside of a call or ends, open and later calls fail with `worker_failed`.
 *
 * @param name what the errors call the thread, such as "the trainer thread"
 * @example
 * const thread = startThread(new Worker(new URL("./thread.ts", import.meta.url).href), "the trainer thread")
 * const sum = await thread.call<number>("add", 1, 2)
 * thread.end()
 */
export function startThread(worker: Worker, name: string, hint?: string): CallThread {
  const caller = createCaller(worker)
  let ended = false
  const fail = (what: string): void => caller.fail(new CohortError("worker_failed", `${name} ${what}`, hint === undefined ? {} : { hint }))
  worker.addEventListener("error", (event) => fail(`failed: ${event.message}`))
  worker.addEventListener("close", (event) => fail(`ended with code ${(event as { code?: number }).code ?? "unknown"}`))
  return {
    call: caller.call,
    fail: caller.fail,
    end() {
      if (ended) return
      ended = true
      fail("is closed")
      worker.terminate()
    },
  }
}
