// Bounded waiting under an injected clock: no await of the rollout side lasts longer than its deadline, also when the
// callee ignores its signal.
import { CohortError } from "@cohort/errors"
import type { Clock } from "./protocol.ts"

/** What a bounded call needs to know. */
export interface Deadline {
  readonly clock: Clock
  readonly timeoutMs: number
  /** Aborts the call from outside. */
  readonly signal: AbortSignal
  /** Names the call in the error: "reward exact". */
  readonly what: string
}

/** Reason of timers that are no longer needed; one for all, since an exception made for each costs more than the rest of the wait. */
export const timerOver = new DOMException("the wait is over", "AbortError")

/**
 * Runs `work` with a signal that aborts at the deadline or with the outer signal, and settles at that moment even when
 * `work` does not listen.
 *
 * @throws CohortError `timeout` after `timeoutMs`; the outer signal's reason when that aborts; what `work` throws.
 * @example
 * await withDeadline({ clock, timeoutMs: 1000, signal, what: "tool search" }, (s) => tool.run(input, s))
 */
export async function withDeadline<T>(deadline: Deadline, work: (signal: AbortSignal) => T | Promise<T>): Promise<T> {
  const { clock, timeoutMs, signal, what } = deadline
  signal.throwIfAborted()
  const inner = new AbortController()
  const timer = new AbortController()
  let onAbort = (): void => undefined
  const cut = new Promise<never>((_, reject) => {
    onAbort = () => {
      inner.abort(signal.reason)
      reject(signal.reason)
    }
    signal.addEventListener("abort", onAbort, { once: true })
    clock.sleep(timeoutMs, timer.signal).then(
      () => {
        const error = new CohortError("timeout", `${what} took longer than ${timeoutMs} ms`, { details: { timeoutMs } })
        inner.abort(error)
        reject(error)
      },
      // The timer is aborted below once the work has settled; that is its normal end.
      () => undefined,
    )
  })
  try {
    return await Promise.race([Promise.resolve().then(() => work(inner.signal)), cut])
  } finally {
    signal.removeEventListener("abort", onAbort)
    timer.abort(timerOver)
  }
}
