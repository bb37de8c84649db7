// Calls over a few isolates: they queue for a free one, each has its deadline from the moment it runs and its isolate a cap on memory, and what
// goes beyond is ended by ending the process. The next call starts a fresh one.
import { CohortError, isCohortError, messageOf, toCohortError } from "@cohort/errors"
import type { Clock } from "@cohort/rollout"
import type { Isolate } from "./process.ts"

export interface IsolatePoolOptions<Opened> {
  /** Names the plugin in errors: "reward python". */
  readonly what: string
  /** Isolates at most; each runs one call at a time. */
  readonly size: number
  /** Time one call may take in its isolate, ms. */
  readonly deadlineMs: number
  readonly memoryBytes: number
  /** Time in which a fresh isolate must have loaded the plugin, ms. */
  readonly startTimeoutMs: number
  readonly spawn: () => Isolate
  /** Loads the plugin in a fresh isolate. */
  readonly open: (isolate: Isolate) => Promise<Opened>
  readonly clock: Clock
  readonly log: (message: string) => void
}

export interface IsolatePool<Opened> {
  /** What the first isolate said when it had loaded the plugin. */
  readonly opened: Opened
  readonly pids: () => readonly number[]
  /**
   * Calls a method in the next free isolate. Aborting takes the call out of the queue, or ends the isolate that runs it.
   *
   * Messages have no subject; the caller names the plugin.
   *
   * @throws CohortError `timeout` at the deadline; `worker_failed` beyond the memory cap or when the process ended; `aborted`; what the method throws
   */
  call<Result>(method: string, args: readonly unknown[], signal: AbortSignal): Promise<Result>
  /** Lets idle isolates close their plugin, ends all, and fails what waits. */
  close(): Promise<void>
}

interface Job {
  readonly method: string
  readonly args: readonly unknown[]
  readonly signal: AbortSignal
  readonly done: PromiseWithResolvers<unknown>
}

/** An isolate's place; `stop` ends the isolate and the call in it with an error. */
interface Seat {
  isolate: Isolate | undefined
  busy: boolean
  stop: ((error: CohortError) => void) | undefined
}

const watchEveryMs = 20
const closeTimeoutMs = 2_000
const mebibyte = 2 ** 20

/**
 * Starts the first isolate and loads the plugin in it; others start when calls wait.
 *
 * @throws CohortError what loading throws; `timeout`, `worker_failed`, `aborted`
 */
export async function openIsolatePool<Opened>(options: IsolatePoolOptions<Opened>, signal: AbortSignal): Promise<IsolatePool<Opened>> {
  const pool = new Pool(options)
  try {
    return await pool.start(signal)
  } catch (error) {
    await pool.close()
    throw error
  }
}

class Pool<Opened> {
  readonly #options: IsolatePoolOptions<Opened>
  readonly #seats: readonly Seat[]
  readonly #queue: Job[] = []
  readonly #closed = new AbortController()
  readonly #leaving = new Set<Promise<void>>()
  #watching = false

  constructor(options: IsolatePoolOptions<Opened>) {
    this.#options = options
    this.#seats = Array.from({ length: options.size }, () => ({ isolate: undefined, busy: false, stop: undefined }))
  }

  async start(signal: AbortSignal): Promise<IsolatePool<Opened>> {
    const [first] = this.#seats
    const opened = await this.#within(first!, this.#options.startTimeoutMs, signal, () => this.#open(first!)).catch((error: unknown) => {
      const { code, message, hint, details } = toCohortError(error)
      // The plugin's own errors name it already.
      const named = code === "timeout" || code === "worker_failed" || code === "aborted" ? `the isolate of ${this.#options.what} ${message}` : message
      throw new CohortError(code, named, { cause: error, ...(hint === undefined ? {} : { hint }), ...(details === undefined ? {} : { details }) })
    })
    if (first!.isolate?.residentBytes() === 0) this.#options.log(`${this.#options.what}: this system does not tell the memory of a process, so its isolates have no cap`)
    return {
      opened,
      pids: () => this.#seats.flatMap(({ isolate }) => isolate?.pid ?? []),
      call: (method, args, callSignal) => this.#call(method, args, callSignal),
      close: () => this.close(),
    }
  }

  async close(): Promise<void> {
    const over = new CohortError("aborted", "was closed")
    if (!this.#closed.signal.aborted) {
      for (const job of this.#queue.splice(0)) job.done.reject(over)
      const { clock } = this.#options
      const goodbyes = this.#seats.map(async ({ isolate, busy }) => {
        if (isolate === undefined || busy) return
        const timer = new AbortController()
        await Promise.race([isolate.call("close").catch((error: unknown) => this.#options.log(`${this.#options.what}: close failed: ${messageOf(error)}`)), quietSleep(clock, closeTimeoutMs, timer.signal)])
        timer.abort()
      })
      this.#closed.abort(over)
      await Promise.all(goodbyes)
      for (const seat of this.#seats) {
        seat.stop?.(over)
        this.#leave(seat)
      }
    }
    await Promise.all(this.#leaving)
  }

  #call<Result>(method: string, args: readonly unknown[], signal: AbortSignal): Promise<Result> {
    if (signal.aborted || this.#closed.signal.aborted) return Promise.reject(new CohortError("aborted", "was stopped"))
    const job: Job = { method, args, signal, done: Promise.withResolvers() }
    this.#queue.push(job)
    const onAbort = (): void => {
      const at = this.#queue.indexOf(job)
      if (at < 0) return
      this.#queue.splice(at, 1)
      job.done.reject(new CohortError("aborted", "was stopped", { cause: signal.reason }))
    }
    signal.addEventListener("abort", onAbort, { once: true })
    void this.#pump()
    // What comes back is what the isolate's method returned.
    return (job.done.promise as Promise<Result>).finally(() => signal.removeEventListener("abort", onAbort))
  }

  #pump(): void {
    while (this.#queue.length > 0) {
      // One that is there comes before one that would have to start.
      const free = this.#seats.filter(({ busy }) => !busy)
      const seat = free.find(({ isolate }) => isolate !== undefined) ?? free[0]
      if (seat === undefined) return
      const job = this.#queue.shift()!
      seat.busy = true
      void this.#run(job, seat).then(job.done.resolve, job.done.reject).finally(() => {
        seat.busy = false
        this.#pump()
      })
    }
  }

  async #run({ method, args, signal }: Job, seat: Seat): Promise<unknown> {
    const { startTimeoutMs, deadlineMs } = this.#options
    if (seat.isolate === undefined) await this.#within(seat, startTimeoutMs, signal, () => this.#open(seat))
    const isolate = seat.isolate
    if (isolate === undefined) throw new CohortError("worker_failed", "its process ended before the call")
    return this.#within(seat, deadlineMs, signal, () => isolate.call(method, ...args)).catch((error: unknown) => {
      // Gone by itself: the next call must not meet it, whichever of us hears first.
      if (isCohortError(error) && error.code === "worker_failed") this.#leave(seat, isolate)
      throw error
    })
  }

  async #open(seat: Seat): Promise<Opened> {
    const isolate = this.#options.spawn()
    seat.isolate = isolate
    void isolate.exited.then(() => {
      if (seat.isolate === isolate) seat.isolate = undefined
    })
    void this.#watch()
    try {
      return await this.#options.open(isolate)
    } catch (error) {
      this.#leave(seat, isolate)
      throw error
    }
  }

  /** Runs work in a seat's isolate, and ends the isolate where it must be cut short. */
  async #within<Result>(seat: Seat, timeoutMs: number, signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    const { clock } = this.#options
    const cut = Promise.withResolvers<never>()
    const timer = new AbortController()
    const stop = (error: CohortError): void => {
      cut.reject(error)
      this.#leave(seat)
    }
    seat.stop = stop
    const onAbort = (): void => stop(new CohortError("aborted", "was stopped", { cause: signal.reason }))
    signal.addEventListener("abort", onAbort, { once: true })
    if (signal.aborted) onAbort()
    void quietSleep(clock, timeoutMs, timer.signal).then((over) => {
      if (over) stop(new CohortError("timeout", `took longer than ${timeoutMs} ms and was ended`, { details: { timeoutMs } }))
    })
    try {
      return await Promise.race([work(), cut.promise])
    } finally {
      seat.stop = undefined
      timer.abort()
      signal.removeEventListener("abort", onAbort)
    }
  }

  /** Empties a seat at once; its process is waited for when the pool closes. */
  #leave(seat: Seat, isolate = seat.isolate): void {
    if (isolate === undefined || seat.isolate !== isolate) return
    seat.isolate = undefined
    isolate.kill()
    this.#leaving.add(isolate.exited)
    void isolate.exited.then(() => this.#leaving.delete(isolate.exited))
  }

  /** Looks at the memory of the isolates for as long as there are any. */
  async #watch(): Promise<void> {
    if (this.#watching) return
    this.#watching = true
    const { what, memoryBytes, clock, log } = this.#options
    while (!this.#closed.signal.aborted && this.#seats.some(({ isolate }) => isolate !== undefined)) {
      for (const seat of this.#seats) {
        const bytes = seat.isolate?.residentBytes() ?? 0
        if (bytes <= memoryBytes) continue
        const used = `used ${Math.ceil(bytes / mebibyte)} MiB, over its cap of ${Math.round(memoryBytes / mebibyte)} MiB, and was ended`
        if (seat.stop !== undefined) seat.stop(new CohortError("worker_failed", used, { details: { bytes, memoryBytes } }))
        else {
          log(`an idle isolate of ${what} ${used}`)
          this.#leave(seat)
        }
      }
      await quietSleep(clock, watchEveryMs, this.#closed.signal)
    }
    this.#watching = false
  }
}

/** True after `ms`, false where the signal ended it. */
function quietSleep(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  return clock.sleep(ms, signal).then(() => !signal.aborted, () => false)
}
