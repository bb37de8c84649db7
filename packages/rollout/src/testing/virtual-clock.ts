// A clock that a test drives: time stands still until everything that can run has run, then jumps to the next timer.
import { CohortError } from "@cohort/errors"
import type { Clock } from "../protocol.ts"

interface Timer {
  readonly atMs: number
  readonly order: number
  /** Cleared when the timer was aborted: it stays in the heap until its time and fires nothing. */
  fire: (() => void) | undefined
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
  let live = 0
  const heap: Timer[] = []

  /** Fires the next timer not after `untilMs`; false when there is none. */
  const step = (untilMs: number): boolean => {
    while (heap.length > 0 && heap[0]!.fire === undefined) popFirst(heap)
    const first = heap[0]
    if (first?.fire === undefined || first.atMs > untilMs) return false
    popFirst(heap)
    nowMs = Math.max(nowMs, first.atMs)
    live--
    first.fire()
    return true
  }

  return {
    now: () => nowMs,
    get pending() {
      return live
    },
    sleep(ms, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      if (signal?.aborted) {
        reject(signal.reason)
        return promise
      }
      const onAbort = (): void => {
        timer.fire = undefined
        live--
        reject(signal?.reason)
      }
      const timer: Timer = {
        atMs: nowMs + Math.max(0, ms),
        order: order++,
        fire: () => {
          signal?.removeEventListener("abort", onAbort)
          resolve()
        },
      }
      signal?.addEventListener("abort", onAbort, { once: true })
      live++
      push(heap, timer)
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
        const why = live === 0 ? "no timer is left: a deadlock" : `it is still pending after ${limitMs} ms`
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

function isEarlier(a: Timer, b: Timer): boolean {
  return a.atMs === b.atMs ? a.order < b.order : a.atMs < b.atMs
}

function push(heap: Timer[], timer: Timer): void {
  let at = heap.push(timer) - 1
  while (at > 0) {
    const parent = (at - 1) >> 1
    if (!isEarlier(timer, heap[parent]!)) break
    heap[at] = heap[parent]!
    at = parent
  }
  heap[at] = timer
}

function popFirst(heap: Timer[]): void {
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return
  let at = 0
  for (;;) {
    const left = 2 * at + 1
    if (left >= heap.length) break
    const child = left + 1 < heap.length && isEarlier(heap[left + 1]!, heap[left]!) ? left + 1 : left
    if (!isEarlier(heap[child]!, last)) break
    heap[at] = heap[child]!
    at = child
  }
  heap[at] = last
}
