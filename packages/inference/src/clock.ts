// Time as an argument: everything that waits in this package waits through a Clock, so tests can own time.

export interface Clock {
  /** Milliseconds; only differences are used. */
  now(): number
  /** Resolves after `ms`, or as soon as `signal` aborts, whichever is first. It never rejects: look at the signal. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** The machine's own clock. The only place of this package that reads real time. */
export const systemClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted === true) return resolve()
      const done = () => {
        clearTimeout(timer)
        signal?.removeEventListener("abort", done)
        resolve()
      }
      // setTimeout fires at once above 2^31 - 1 ms.
      const timer = setTimeout(done, Math.min(ms, 2_147_483_647))
      signal?.addEventListener("abort", done, { once: true })
    }),
}
