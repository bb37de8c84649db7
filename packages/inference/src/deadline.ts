// A deadline as an abort signal. It can stand still while the server is paused, because a frozen request is not a hung one.
import type { Clock } from "./clock.ts"

export interface Deadline {
  /** Aborts at the deadline or when the caller's signal aborts. */
  readonly signal: AbortSignal
  readonly expired: boolean
  close(): void
}

export interface DeadlineOptions {
  readonly clock: Clock
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
  /** Total time the server has stood paused so far, ms; time added to it during the wait does not count. */
  readonly pausedMs?: (() => number) | undefined
}

/** Time below which a suspended deadline is not looked at again, so a long pause costs no spinning. */
const recheckMs = 50

/**
 * Opens a deadline. Close it when the guarded work is done.
 *
 * @example
 * const deadline = openDeadline({ clock, timeoutMs: 60_000, signal })
 * try { await fetch(url, { signal: deadline.signal }) } finally { deadline.close() }
 */
export function openDeadline(options: DeadlineOptions): Deadline {
  const { clock, timeoutMs, signal } = options
  const pausedMs = options.pausedMs ?? (() => 0)
  const controller = new AbortController()
  const timer = new AbortController()
  let expired = false
  const forward = () => controller.abort(signal?.reason)
  if (signal?.aborted === true) forward()
  else signal?.addEventListener("abort", forward, { once: true })

  const watch = async () => {
    const start = clock.now()
    const pausedAtStart = pausedMs()
    while (!timer.signal.aborted) {
      const spent = clock.now() - start - (pausedMs() - pausedAtStart)
      if (spent >= timeoutMs) {
        expired = true
        controller.abort(new DOMException("deadline", "TimeoutError"))
        return
      }
      const paused = pausedMs() > pausedAtStart
      await clock.sleep(Math.max(timeoutMs - spent, paused ? recheckMs : 1), timer.signal)
    }
  }
  if (Number.isFinite(timeoutMs)) void watch()

  return {
    signal: controller.signal,
    get expired() {
      return expired
    },
    close() {
      timer.abort()
      signal?.removeEventListener("abort", forward)
    },
  }
}
