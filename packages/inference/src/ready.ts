// Waits for a server to come up, and always says what it is waiting for.
import { CohortError, isCohortError, messageOf } from "@cohort/errors"
import { systemClock, type Clock } from "./clock.ts"
import type { InferenceServer, ServerHealth } from "./protocol.ts"

export interface WaitOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal
  readonly clock?: Clock
  /** Time between two looks, ms. 500 when absent. */
  readonly pollMs?: number
  /** Called whenever the reason to wait changes. */
  readonly onWaiting?: (reason: string) => void
}

/**
 * Resolves with the server's health once it is ready.
 *
 * @throws CohortError `timeout` naming the server and the last reason, `aborted` by the signal, and at once what waiting cannot
 * cure: `inference_rejected` (wrong key, wrong model)
 * @example
 * const { maxModelLength } = await waitUntilReady(server, { timeoutMs: 240_000 })
 */
export async function waitUntilReady(server: InferenceServer, options: WaitOptions): Promise<ServerHealth> {
  const clock = options.clock ?? systemClock
  const name = server.name ?? "the inference server"
  const start = clock.now()
  let reason = "not looked at yet"
  for (;;) {
    if (options.signal?.aborted === true)
      throw new CohortError("aborted", `waiting for ${name} to become ready: aborted (${reason})`, { cause: options.signal.reason })
    const next = await lookAt(server)
    if (typeof next !== "string") return next
    if (next !== reason) options.onWaiting?.(`waiting for ${name}: ${next}`)
    reason = next
    const left = options.timeoutMs - (clock.now() - start)
    if (left <= 0)
      throw new CohortError("timeout", `${name} was not ready within ${options.timeoutMs / 1000} s: ${reason}`, {
        hint: "Look at the server's own log; a large model can take minutes to start, raise the limit then.",
        details: { timeoutMs: options.timeoutMs, reason },
      })
    await clock.sleep(Math.min(options.pollMs ?? 500, left), options.signal)
  }
}

async function lookAt(server: InferenceServer): Promise<ServerHealth | string> {
  try {
    const health = await server.health()
    return health.ready ? health : "it answers, but is not ready"
  } catch (error) {
    if (isCohortError(error) && error.code === "inference_rejected") throw error
    return messageOf(error)
  }
}
