// An SGLang server: its native generate route, its pause modes, weights from disk.
import { CohortError, isCohortError } from "@cohort/errors"
import { fieldsOf } from "./answer.ts"
import { requestGate } from "./drain.ts"
import { httpClient, type Call } from "./http.ts"
import type { InferenceServer, PauseMode, ServerHealth } from "./protocol.ts"
import { checkRequest } from "./request.ts"
import { resolveOptions, type ServerOptions } from "./server-options.ts"
import { generationsOfSglang, loadsOf, sglangBody } from "./sglang-wire.ts"
import { versionTracker } from "./versions.ts"
import { maxModelLength } from "./vllm-wire.ts"
import { weightLoader } from "./weight-loader.ts"

export interface SglangOptions extends ServerOptions {
  /** What `pause("keep")` does: `retract` recomputes running requests with the new weights, `in_place` goes on with the old cache. */
  readonly keepMode?: "retract" | "in_place"
}

const once = { attempts: 1, firstDelayMs: 0, maxDelayMs: 0 }

/**
 * Client of one SGLang server (0.5.17 and newer; the folder must be visible to the server).
 *
 * Its answers carry one version, that of their end, so a generation counts as made by the version it started on. Prefix-cache entries
 * are kept apart per version (`extra_key`), because the cache must not be flushed while requests are held: that kills its scheduler.
 *
 * @example
 * const server = sglangServer({ url: "http://127.0.0.1:30000", model: "policy" })
 */
export function sglangServer(options: SglangOptions): InferenceServer & { readonly name: string } {
  const settings = resolveOptions(options)
  const { name, model, initialVersion, clock } = settings
  const http = httpClient(settings)
  const tracker = versionTracker(initialVersion, () => clock.now())
  const gate = requestGate(name, clock)
  const closing = new AbortController()
  let modelLength: number | undefined
  /** True when the pause left no request on the server, so that the cache may be flushed. */
  let idle = false

  const control = (method: Call["method"], path: string, extra: Partial<Call> = {}) =>
    http({ method, path, timeoutMs: settings.controlTimeoutMs, retry: settings.controlRetry, signal: closing.signal, ...extra })
  const look = (path: string) => control("GET", path, { timeoutMs: settings.healthTimeoutMs, retry: once })

  const loader = weightLoader({
    name,
    tracker,
    readNames: settings.readNames,
    pathOnServer: settings.pathOnServer,
    async reload({ path, version }) {
      const answer = await control("POST", "/update_weights_from_disk", {
        body: { model_path: path, weight_version: String(version), flush_cache: idle, abort_all_requests: false },
        timeoutMs: settings.loadTimeoutMs,
        retry: once,
      }).catch(asUnknownWeights)
      const fields = fieldsOf(answer)
      if (fields?.success !== true)
        throw new CohortError("inference_failed", `${name}: update_weights_from_disk: ${String(fields?.message ?? "no success in its answer")}`)
    },
    async originalFolder() {
      const path = fieldsOf(await control("GET", "/model_info"))?.model_path
      return typeof path === "string" ? path : undefined
    },
  })

  return {
    name,
    async generate(request) {
      checkRequest(request)
      loader.assertWhole("generate")
      const signal = AbortSignal.any([request.signal, closing.signal])
      const leave = await gate.enter(signal)
      const tracked = tracker.open()
      try {
        const salt = `${request.cacheSalt ?? ""}v${tracker.current}`
        const answer = await http({
          method: "POST",
          path: "/generate",
          body: sglangBody(request, salt),
          signal,
          timeoutMs: settings.requestTimeoutMs,
          retry: settings.retry,
          pausedMs: tracker.pausedMs,
        })
        return generationsOfSglang(answer, { n: request.n, version: tracked.oldest, initialVersion, name })
      } finally {
        tracked.close()
        leave()
      }
    },
    async pause(mode: PauseMode) {
      if (mode === "wait") {
        gate.shut()
        try {
          await gate.drained(settings.requestTimeoutMs)
        } catch (error) {
          gate.open()
          throw error
        }
      }
      const sent = mode === "keep" ? (options.keepMode ?? "retract") : "abort"
      await control("POST", "/pause_generation", { body: { mode: sent } })
      idle = mode !== "keep"
      tracker.pause()
    },
    async resume() {
      loader.assertSettled("resume")
      await control("POST", "/continue_generation", { body: {} })
      idle = false
      tracker.resume()
      gate.open()
    },
    async health(): Promise<ServerHealth> {
      const ready = await look("/health").then(() => true, unlessDead)
      if (!ready) return { ready, running: 0, waiting: 0, kvUsage: 0, maxModelLength: modelLength ?? 0, version: tracker.current }
      const [loads, info] = await Promise.all([look("/v1/loads?include=core"), look("/model_info")])
      modelLength ??= maxModelLength(await look("/v1/models"), model, name)
      const label = fieldsOf(info)?.weight_version
      // A server that was restarted behind our back holds its first weights again.
      if (!tracker.paused && typeof label === "string" && /^(default|\d+)$/.test(label))
        tracker.switchTo(label === "default" ? initialVersion : Number(label))
      return { ready, ...loadsOf(loads), maxModelLength: modelLength, version: tracker.current }
    },
    async loadWeights(weights) {
      if (weights.adapter !== undefined) throw new CohortError("inference_rejected", `${name}: adapters are loaded into vLLM only`, { hint: 'Set transfer.kind to "sharedMemory" or "filesystem": servers then get the weights with the adapter merged in.' })
      await loader.load(weights)
    },
    async close() {
      closing.abort(new Error(`${name} was closed`))
    },
  }
}

/** SGLang answers 400 to a load that failed half way and rolls back by itself, but not always: treat its weights as unknown. */
function asUnknownWeights(error: unknown): never {
  if (isCohortError(error) && error.code === "inference_rejected" && error.details?.status === 400)
    throw new CohortError("inference_failed", error.message, { cause: error })
  throw error
}

function unlessDead(error: unknown): false {
  if (isCohortError(error) && error.code === "inference_failed") return false
  throw error
}
