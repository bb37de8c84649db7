// A clock that a test drives: time stands still until everything that can run has run, then jumps to the next timer.
import { CohortError } from "@cohort/errors"
import type { Clock } from "../protocol.ts"

interface Timer {
  readonly atMs: number
  readonly order: number
  readonly fire: () => void
}

export interface VirtualClock extends Clock {
  /**
   * Lets virtual time pass until `promise` settles.
   *
   * @throws CohortError `timeout` when it is still pending `limitMs` later, or when no timer is left: a deadlock.
   */
  run<T>(promise: Promise<T>, limitMs?: number): Promise<T>
  /** Lets `ms` pass, firing what falls due. */
  advance(ms: number): Promise<void>
  /** Timers that wait; 0 after everything has been closed. */
  readonly pending: number
}

/**
 * @example
 * const clock = createVirtualClock()
 * await clock.run(worker.stop())
 */
export function createVirtualClock(startMs = 0): VirtualClock {
  let nowMs = startMs
  let order = 0
  let timers: Timer[] = []
  const isEarlier = (a: Timer, b: Timer): boolean => (a.atMs === b.atMs ? a.order < b.order : a.atMs < b.atMs)

  /** Fires the next timer not after `untilMs`; false when there is none. */
  const step = (untilMs: number): boolean => {
    const first = timers.reduce<Timer | undefined>((best, timer) => (best === undefined || isEarlier(timer, best) ? timer : best), undefined)
    if (first === undefined || first.atMs > untilMs) return false
    timers = timers.filter((timer) => timer !== first)
    nowMs = Math.max(nowMs, first.atMs)
    first.fire()
    return true
  }

  return {
    now: () => nowMs,
    get pending() {
      return timers.length
    },
    sleep(ms, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      if (signal?.aborted) {
        reject(signal.reason)
        return promise
      }
      const timer: Timer = {
        atMs: nowMs + Math.max(0, ms),
        order: order++,
        fire: () => {
          signal?.removeEventListener("abort", onAbort)
          resolve()
        },
      }
      const onAbort = (): void => {
        timers = timers.filter((other) => other !== timer)
        reject(signal?.reason)
      }
      signal?.addEventListener("abort", onAbort, { once: true })
      timers.push(timer)
      return promise
    },
    async run(promise, limitMs = 3_600_000) {
      const outcome = { settled: false }
      const settle = (): void => {
        outcome.settled = true
      }
      promise.then(settle, settle)
      const untilMs = nowMs + limitMs
      for (await drain(); !outcome.settled; await drain()) {
        if (step(untilMs)) continue
        const why = timers.length === 0 ? "no timer is left: a deadlock" : `it is still pending after ${limitMs} ms`
        throw new CohortError("timeout", `virtual time stops at ${nowMs} ms: ${why}`)
      }
      return promise
    },
    async advance(ms) {
      const untilMs = nowMs + ms
      for (await drain(); step(untilMs); await drain());
      nowMs = untilMs
    },
  }
}

/** Runs every promise reaction that is ready: a macrotask comes after all of them. */
function drain(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
