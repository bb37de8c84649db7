// Bounded waiting under an injected clock: no await of the rollout side lasts longer than its deadline, also when the
// callee ignores its signal. Thousands of waits are open at once, so they share timers and listeners.
import { CohortError } from "@cohort/errors"
import { listenToAbort, unlistenToAbort } from "./abort-listeners.ts"
import type { Clock } from "./protocol.ts"
import { type LaneEntry, laneOf, type TimerLane } from "./timer-lane.ts"

/** What a bounded call needs to know. */
export interface Deadline {
  readonly clock: Clock
  readonly timeoutMs: number
  /** Aborts the call from outside. */
  readonly signal: AbortSignal
  /** Names the call in the error: "reward exact". */
  readonly what: string
  /** Aborted in place of a controller of the call's own: for a call whose end in time is the end of all that the controller bounds. */
  readonly controller?: AbortController
}

/** What bounds a call while it runs. */
export interface Limit {
  /** Aborts at the deadline or with the outer signal; made when it is first asked for. */
  readonly signal: AbortSignal
}

/**
 * Runs `work` with a signal that aborts at the deadline or with the outer signal, and settles at that moment even when
 * `work` does not listen.
 *
 * @throws CohortError `timeout` after `timeoutMs`; the outer signal's reason when that aborts; what `work` throws.
 * @example
 * await withDeadline({ clock, timeoutMs: 1000, signal, what: "tool search" }, (s) => tool.run(input, s))
 */
export function withDeadline<T>(deadline: Deadline, work: (signal: AbortSignal) => T | PromiseLike<T>): Promise<T> {
  return bounded(deadline, (limit) => work(limit.signal))
}

/** `withDeadline` for work that may never look at its signal: none is made before it is asked for. */
export function bounded<T>(deadline: Deadline, work: (limit: Limit) => T | PromiseLike<T>): Promise<T> {
  if (deadline.signal.aborted) return Promise.reject(deadline.signal.reason)
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const wait = new Wait<T>(deadline, resolve, reject)
  try {
    const result = work(wait)
    // What has answered at once is not waited for.
    if (isThenable(result)) wait.follow(result)
    else resolve(result)
  } catch (error) {
    reject(error)
  }
  return promise
}

class Wait<T> implements Limit, LaneEntry {
  atMs = 0
  previous: LaneEntry | undefined = undefined
  next: LaneEntry | undefined = undefined
  readonly #deadline: Deadline
  readonly #resolve: (value: T) => void
  readonly #reject: (reason: unknown) => void
  #lane: TimerLane | undefined
  #controller: AbortController | undefined
  #over = false
  #cut: { readonly reason: unknown } | undefined

  constructor(deadline: Deadline, resolve: (value: T) => void, reject: (reason: unknown) => void) {
    this.#deadline = deadline
    this.#controller = deadline.controller
    this.#resolve = resolve
    this.#reject = reject
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#cut !== undefined) this.#controller.abort(this.#cut.reason)
    }
    return this.#controller.signal
  }

  follow(result: PromiseLike<T>): void {
    const { clock, timeoutMs, signal } = this.#deadline
    result.then(
      (value) => {
        if (this.#end()) this.#resolve(value)
      },
      (error: unknown) => {
        if (this.#end()) this.#reject(error)
      },
    )
    if (signal.aborted) {
      this.#cutWith(signal.reason)
      return
    }
    this.#lane = laneOf(clock, timeoutMs)
    this.#lane.add(this)
    listenToAbort(signal, this)
  }

  /** The deadline has come. */
  ring(): void {
    const { what, timeoutMs } = this.#deadline
    this.#cutWith(new CohortError("timeout", `${what} took longer than ${timeoutMs} ms`, { details: { timeoutMs } }))
  }

  /** The outer signal aborted. */
  aborted(reason: unknown): void {
    this.#cutWith(reason)
  }

  #cutWith(reason: unknown): void {
    if (!this.#end()) return
    this.#cut = { reason }
    this.#controller?.abort(reason)
    this.#reject(reason)
  }

  #end(): boolean {
    if (this.#over) return false
    this.#over = true
    this.#lane?.remove(this)
    unlistenToAbort(this.#deadline.signal, this)
    return true
  }
}

function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function"
}
