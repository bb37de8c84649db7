// Finished groups on their way to the trainer: bounded, oldest first, nothing lost and nothing twice. A producer waits while it
// is full; its group already takes part in the order, so a full queue never hides the oldest group.
import { CohortError } from "@cohort/errors"
import { timerOver } from "./timer-over.ts"
import type { Clock } from "./protocol.ts"

/** What the order is made of. */
export interface Aged {
  readonly occurrence: number
  readonly oldestVersion: number
}

interface Entry<T> {
  readonly item: T
  /** Both set while its producer still waits for room. */
  admit?: () => void
  refuse?: (reason: unknown) => void
}

/** Queue of groups with back-pressure. */
export class SampleQueue<T extends Aged> {
  readonly capacity: number
  #entries: Entry<T>[] = []
  #state: { readonly kind: "open" } | { readonly kind: "closed" } | { readonly kind: "failed"; readonly error: unknown } = { kind: "open" }
  #wake = Promise.withResolvers<void>()

  /** @throws CohortError `config_invalid` unless `capacity` is a positive integer. */
  constructor(capacity: number) {
    if (!Number.isInteger(capacity) || capacity < 1)
      throw new CohortError("config_invalid", `queue capacity is ${capacity}`, { hint: "Give room for at least one group." })
    this.capacity = capacity
  }

  /** Groups held, those whose producers wait for room included. */
  get size(): number {
    return this.#entries.length
  }

  get closed(): boolean {
    return this.#state.kind !== "open"
  }

  /**
   * Adds a group; resolves once there is room for it, or once a consumer took it.
   *
   * @throws CohortError `aborted` when the queue closes or fails first, or the signal's reason; the group is then not in the queue.
   */
  async push(item: T, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (this.#state.kind !== "open") throw closedError(this.#state.kind === "failed" ? this.#state.error : undefined)
    const entry: Entry<T> = { item }
    const full = this.#entries.length >= this.capacity
    const at = this.#entries.findIndex((other) => isOlder(item, other.item))
    this.#entries.splice(at < 0 ? this.#entries.length : at, 0, entry)
    if (!full) {
      this.#changed()
      return
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const onAbort = (): void => {
      delete entry.admit
      this.#remove(entry)
      reject(signal?.reason)
    }
    entry.admit = resolve
    entry.refuse = reject
    signal?.addEventListener("abort", onAbort, { once: true })
    this.#changed()
    await promise.finally(() => signal?.removeEventListener("abort", onAbort))
  }

  /** All groups, oldest first, left in place. */
  items(): readonly T[] {
    return this.#entries.map(({ item }) => item)
  }

  /** The oldest group, left in place. */
  peek(): T | undefined {
    return this.#entries[0]?.item
  }

  /** Takes the oldest group; undefined when empty. */
  tryTake(): T | undefined {
    const entry = this.#entries[0]
    if (entry !== undefined) this.#remove(entry)
    return entry?.item
  }

  /**
   * Waits for the oldest group. Undefined once the queue is closed and empty.
   *
   * @throws CohortError `timeout` after `timeoutMs`; the signal's reason; the error given to `fail`.
   */
  async take(options: { readonly clock: Clock; readonly timeoutMs: number; readonly signal?: AbortSignal }): Promise<T | undefined> {
    const timer = new AbortController()
    const onAbort = (): void => timer.abort(options.signal?.reason)
    options.signal?.addEventListener("abort", onAbort, { once: true })
    if (options.signal?.aborted) onAbort()
    const timeout = options.clock.sleep(options.timeoutMs, timer.signal).then(() => {
      throw new CohortError("timeout", `no group came within ${options.timeoutMs} ms`, {
        hint: "Generation or rewards are slower than the deadline, or nothing is being admitted; see the worker's status.",
      })
    })
    // It also rejects when nobody races it any more.
    timeout.catch(() => undefined)
    try {
      for (;;) {
        options.signal?.throwIfAborted()
        if (this.#state.kind === "failed") throw this.#state.error
        const item = this.tryTake()
        if (item !== undefined || this.#state.kind === "closed") return item
        await Promise.race([this.changed(), timeout])
      }
    } finally {
      options.signal?.removeEventListener("abort", onAbort)
      timer.abort(timerOver)
    }
  }

  /** Groups as they come, oldest first; ends when the queue is closed and empty, throws what `fail` was given. */
  async *iterate(options: { readonly clock: Clock; readonly timeoutMs: number; readonly signal?: AbortSignal }): AsyncGenerator<T, void, void> {
    for (;;) {
      const item = await this.take(options)
      if (item === undefined) return
      yield item
    }
  }

  /** Resolves at the next push, take, close or failure. */
  changed(): Promise<void> {
    return this.#wake.promise
  }

  /** No more groups; those inside can still be taken. Producers that wait for room keep their place. */
  close(): void {
    if (this.#state.kind === "open") this.#state = { kind: "closed" }
    this.#changed()
  }

  /** Ends the queue at once: consumers get `error`. */
  fail(error: unknown): void {
    if (this.#state.kind !== "failed") this.#state = { kind: "failed", error }
    this.#changed()
  }

  /** Empties the queue and hands everything back, oldest first; waiting producers are refused. */
  drain(): readonly T[] {
    const entries = this.#entries
    this.#entries = []
    for (const entry of entries) entry.refuse?.(closedError(undefined))
    this.#changed()
    return entries.map(({ item }) => item)
  }

  #remove(entry: Entry<T>): void {
    this.#entries = this.#entries.filter((other) => other !== entry)
    entry.admit?.()
    delete entry.admit
    delete entry.refuse
    const waiting = this.#entries.filter(({ admit }) => admit !== undefined)
    const room = this.capacity - (this.#entries.length - waiting.length)
    for (const next of waiting.slice(0, Math.max(0, room))) {
      next.admit?.()
      delete next.admit
      delete next.refuse
    }
    this.#changed()
  }

  #changed(): void {
    const { resolve } = this.#wake
    this.#wake = Promise.withResolvers<void>()
    resolve()
  }
}

function isOlder(a: Aged, b: Aged): boolean {
  return a.oldestVersion === b.oldestVersion ? a.occurrence < b.occurrence : a.oldestVersion < b.oldestVersion
}

function closedError(cause: unknown): CohortError {
  return new CohortError("aborted", "the sample queue is closed", cause === undefined ? {} : { cause })
}
