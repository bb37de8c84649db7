// Brings one server to a new version: pause, load, and resume whatever happened.
import { messageOf } from "@cohort/errors"
import type { Clock, InferenceServer, PauseMode, ServerWeights } from "@cohort/inference"
import { within } from "./time.ts"

export interface UpdateLimits {
  readonly pauseTimeoutMs: number
  /** Must allow a failed load and the way back to the last good weights. */
  readonly loadTimeoutMs: number
  readonly resumeTimeoutMs: number
}

export interface ServerUpdate {
  readonly name: string
  readonly ok: boolean
  /** The new weights are in, even when the resume failed. */
  readonly loaded: boolean
  /** From the call of pause to the answer of resume: as long as the server may have stood still. */
  readonly seconds: number
  readonly error?: string
}

/**
 * Updates one server; failures are values. A server whose own client refuses to resume (weights unknown after a failed load) stays
 * paused, and the outcome says so.
 */
export async function updateServer(
  server: InferenceServer,
  name: string,
  weights: { readonly path: string; readonly version: number },
  mode: PauseMode,
  limits: UpdateLimits,
  clock: Clock,
): Promise<ServerUpdate> {
  const start = clock.now()
  const errors: string[] = []
  let loaded = false
  try {
    await within(server.pause(mode), limits.pauseTimeoutMs, `pause of ${name}`, clock)
    await within(server.loadWeights(weights), limits.loadTimeoutMs, `load of version ${weights.version} on ${name}`, clock)
    loaded = true
  } catch (error) {
    errors.push(messageOf(error))
  }
  try {
    // Also after a failed pause: the server may have heard it.
    await within(server.resume(), limits.resumeTimeoutMs, `resume of ${name}`, clock)
  } catch (error) {
    errors.push(`not resumed: ${messageOf(error)}`)
  }
  const seconds = (clock.now() - start) / 1000
  return { name, ok: errors.length === 0, loaded, seconds, ...(errors.length === 0 ? {} : { error: errors.join("; ") }) }
}

/** Gives one server an adapter, without a pause; failures are values. */
export async function updateAdapter(server: InferenceServer, name: string, weights: Required<ServerWeights>, loadTimeoutMs: number, clock: Clock): Promise<ServerUpdate> {
  const start = clock.now()
  try {
    await within(server.loadWeights(weights), loadTimeoutMs, `load of ${weights.adapter} on ${name}`, clock)
    return { name, ok: true, loaded: true, seconds: (clock.now() - start) / 1000 }
  } catch (error) {
    return { name, ok: false, loaded: false, seconds: (clock.now() - start) / 1000, error: messageOf(error) }
  }
}
