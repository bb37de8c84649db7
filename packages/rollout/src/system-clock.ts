// The machine's clock as the rollout side wants it: milliseconds since the epoch that never go back, and sleeps that reject when aborted.
import type { Clock } from "./protocol.ts"

/** setTimeout fires at once above this. */
const longestMs = 2_147_483_647

const { timeOrigin } = performance

/** The only place of this package that reads real time. */
export const systemClock: Clock = {
  now: () => timeOrigin + performance.now(),
  sleep(ms, signal) {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    if (signal?.aborted === true) {
      reject(signal.reason)
      return promise
    }
    const onAbort = (): void => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort)
      resolve()
    }, Math.min(ms, longestMs))
    signal?.addEventListener("abort", onAbort, { once: true })
    return promise
  },
}
