// Counts requests in flight and lets one caller hold new ones back until those running have ended: SGLang has no pause that drains.
import { CohortError } from "@cohort/errors"
import type { Clock } from "./clock.ts"

export interface Gate {
  readonly inFlight: number
  /** Waits while the gate is shut; call the returned function when the request has ended. */
  enter(signal: AbortSignal): Promise<() => void>
  shut(): void
  open(): void
  /** Resolves when nothing is in flight. @throws CohortError `timeout` */
  drained(timeoutMs: number): Promise<void>
}

/** Makes a gate, open at first. `name` stands in messages. */
export function requestGate(name: string, clock: Clock): Gate {
  const state = { inFlight: 0, opened: undefined as PromiseWithResolvers<void> | undefined, idle: new AbortController() }

  const leave = () => {
    state.inFlight -= 1
    if (state.inFlight > 0) return
    state.idle.abort()
    state.idle = new AbortController()
  }
  return {
    get inFlight() {
      return state.inFlight
    },
    async enter(signal) {
      const gone = Promise.withResolvers<void>()
      const stop = () => gone.resolve()
      signal.addEventListener("abort", stop, { once: true })
      while (state.opened !== undefined && !signal.aborted) await Promise.race([state.opened.promise, gone.promise])
      signal.removeEventListener("abort", stop)
      if (signal.aborted) throw new CohortError("aborted", `generate on ${name}: aborted before it was sent`, { cause: signal.reason })
      state.inFlight += 1
      return leave
    },
    shut() {
      state.opened ??= Promise.withResolvers<void>()
    },
    open() {
      state.opened?.resolve()
      state.opened = undefined
    },
    async drained(timeoutMs) {
      const start = clock.now()
      while (state.inFlight > 0) {
        const left = timeoutMs - (clock.now() - start)
        if (left <= 0)
          throw new CohortError("timeout", `${name}: ${state.inFlight} requests still run after ${timeoutMs / 1000} s of waiting for them to end`, {
            hint: "Pause with mode keep or abort, or allow more time.",
          })
        await clock.sleep(left, state.idle.signal)
      }
    },
  }
}
