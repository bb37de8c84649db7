// A vLLM server, or anything that speaks its routes (the embedded engine does): generation, pause and weights over HTTP.
import { CohortError, isCohortError } from "@cohort/errors"
import { fieldsOf } from "./answer.ts"
import { httpClient, statusOf, type Call } from "./http.ts"
import { gauges, largest, sum } from "./metrics-text.ts"
import type { GenerateRequest, Generation, InferenceServer, PauseMode, ServerHealth } from "./protocol.ts"
import { checkRequest } from "./request.ts"
import { resolveOptions, type ServerOptions } from "./server-options.ts"
import { versionOfLabel, versionTracker } from "./versions.ts"
import { completionsBody, generateBody, generationsOfCompletions, generationsOfGenerate, maxModelLength, modelRoot, tellsTokenVersions } from "./vllm-wire.ts"
import { vllmAdapters } from "./vllm-adapters.ts"
import { weightLoader, type Weights } from "./weight-loader.ts"

export interface VllmOptions extends ServerOptions {
  /**
   * `auto`: `/inference/v1/generate` on servers that tell the version of every token (0.32 and newer with `--enable-scale-out`),
   * else `/v1/completions`.
   */
  readonly route?: "auto" | "completions" | "generate"
  /** Pause recomputes the key-value cache of running requests with the new weights. Off reuses the old one, which is cheaper and less exact. */
  readonly clearCacheOnPause?: boolean
}

type Route = "completions" | "generate"
const once = { attempts: 1, firstDelayMs: 0, maxDelayMs: 0 }

/**
 * Client of one vLLM server.
 *
 * The server needs `VLLM_SERVER_DEV_MODE=1` (pause and weights), `--logprobs-mode processed_logprobs` and, for exact versions per token,
 * 0.32 with `--enable-scale-out`. On CPU builds a model with tied embeddings reloads silently wrong: its checkpoints must be written
 * with `tie_word_embeddings: false` and a copy of the embeddings as `lm_head.weight`, from the first start on.
 *
 * @example
 * const server = vllmServer({ url: "http://127.0.0.1:8000", model: "policy" })
 * const [generation] = await server.generate({ promptIds: Int32Array.of(1, 2, 3), n: 1, sampling, signal })
 */
export function vllmServer(options: VllmOptions): InferenceServer & { readonly name: string } {
  const settings = resolveOptions(options)
  const { name, model, initialVersion } = settings
  const http = httpClient(settings)
  const tracker = versionTracker(initialVersion, () => settings.clock.now())
  const closing = new AbortController()
  const clearCache = options.clearCacheOnPause ?? true
  let route: Route | undefined = options.route === "auto" ? undefined : options.route
  /** False once the server refused a label: its `weight_versions` then tell nothing. */
  let labels = true
  let modelLength: number | undefined
  let inFlight = 0

  const control = (method: Call["method"], path: string, extra: Partial<Call> = {}) =>
    http({ method, path, timeoutMs: settings.controlTimeoutMs, retry: settings.controlRetry, signal: closing.signal, ...extra })
  const look = (path: string) => control("GET", path, { timeoutMs: settings.healthTimeoutMs, retry: once })

  const loader = weightLoader({
    name,
    tracker,
    readNames: settings.readNames,
    pathOnServer: settings.pathOnServer,
    async reload({ path, version }: Weights) {
      await control("POST", "/collective_rpc", {
        body: { method: "reload_weights", kwargs: { weights_path: path } },
        timeoutMs: settings.loadTimeoutMs,
        retry: once,
      })
      labels = await accepted(control("POST", "/update_weight_version", { body: { new_version: String(version) } }))
    },
    originalFolder: async () => modelRoot(await control("GET", "/v1/models"), model),
  })

  const adapters = vllmAdapters({
    name, model,
    pathOnServer: settings.pathOnServer,
    post: (path, body) => control("POST", path, { body, timeoutMs: settings.loadTimeoutMs, retry: once }),
  })

  const chooseRoute = async (signal: AbortSignal): Promise<Route> => {
    if (route !== undefined) return route
    const answer = await orRefused(control("GET", "/version", { signal, timeoutMs: settings.requestTimeoutMs, retry: settings.retry }))
    route ??= tellsTokenVersions(answer) ? "generate" : "completions"
    return route
  }

  const generateBy = async (by: Route, request: GenerateRequest, signal: AbortSignal): Promise<Generation[]> => {
    const tracked = tracker.open()
    const target = adapters.open()
    const post = (path: string, body: unknown) =>
      http({
        method: "POST",
        path,
        body,
        signal,
        timeoutMs: settings.requestTimeoutMs,
        retry: settings.retry,
        pausedMs: tracker.pausedMs,
      })
    try {
      const answer =
        by === "generate"
          ? await post("/inference/v1/generate", generateBody(request, target.model))
          : await post("/v1/completions", completionsBody(request, target.model))
      const context = { request, version: tracked.oldest, initialVersion, name }
      if (by === "completions") return generationsOfCompletions(answer, context)
      const generations = generationsOfGenerate(answer, context)
      // The server's labels are of its weights: an adapter's version is that of its name.
      return labels && target.model === model ? generations : generations.map((generation) => ({ ...generation, versions: [[0, context.version]] as const }))
    } catch (error) {
      if (target.model !== model && isUnknownModel(error))
        throw new CohortError("inference_failed", `${name} has no ${target.model} any more: it was started again`, { cause: error })
      throw error
    } finally {
      tracked.close()
      target.close()
    }
  }

  const readVersion = async (): Promise<number> => {
    const info = labels && adapters.served === model ? fieldsOf(await orRefused(look("/weight_info"))) : undefined
    const label = info?.weight_version
    if (typeof label !== "string" || !/^(default|\d+)$/.test(label)) return tracker.current
    const version = versionOfLabel(label, initialVersion, name)
    // A server that was restarted behind our back holds its first weights again.
    if (!tracker.paused) tracker.switchTo(version)
    return version
  }

  return {
    name,
    async generate(request) {
      checkRequest(request)
      checkTemperature(request.sampling.temperature)
      loader.assertWhole("generate")
      const signal = AbortSignal.any([request.signal, closing.signal])
      inFlight += 1
      try {
        const by = await chooseRoute(signal)
        try {
          return await generateBy(by, request, signal)
        } catch (error) {
          if (by === "completions" || options.route === "generate" || !routeIsClosed(error)) throw error
          route = "completions"
          return await generateBy(route, request, signal)
        }
      } finally {
        inFlight -= 1
      }
    },
    async pause(mode: PauseMode) {
      const timeoutMs = mode === "wait" ? settings.requestTimeoutMs : settings.controlTimeoutMs
      await control("POST", `/pause?mode=${mode}&clear_cache=${clearCache}`, { timeoutMs })
      tracker.pause()
    },
    async resume() {
      loader.assertSettled("resume")
      await control("POST", "/resume")
      tracker.resume()
    },
    async health(): Promise<ServerHealth> {
      const ready = await look("/health").then(() => true, unlessDead)
      if (!ready) return { ready, running: 0, waiting: 0, kvUsage: 0, maxModelLength: modelLength ?? 0, version: tracker.current }
      const [metrics, version] = await Promise.all([orRefused(look("/metrics")), readVersion()])
      modelLength ??= maxModelLength(await look("/v1/models"), model, name)
      const text = typeof metrics === "string" ? metrics : undefined
      return {
        ready,
        running: text === undefined ? inFlight : sum(gauges(text, "vllm:num_requests_running")),
        waiting: text === undefined ? 0 : sum(gauges(text, "vllm:num_requests_waiting")),
        kvUsage: text === undefined ? 0 : largest(gauges(text, "vllm:kv_cache_usage_perc")),
        maxModelLength: modelLength,
        version,
      }
    },
    async loadWeights(weights) {
      const { adapter } = weights
      if (adapter === undefined) return loader.load(weights)
      await adapters.load({ ...weights, adapter })
      tracker.switchTo(weights.version)
    },
    async unloadAdapter(adapter) {
      const wasServed = adapters.served === adapter
      const done = await adapters.unload(adapter)
      if (done && wasServed) tracker.switchTo(initialVersion)
      return done
    },
    async close() {
      closing.abort(new Error(`${name} was closed`))
    },
  }
}

/** vLLM raises 0 < T < 0.01 to 0.01 without a word, and the trainer's log-probs would be of another distribution. */
function checkTemperature(temperature: number): void {
  if (temperature > 0 && temperature < 0.01)
    throw new CohortError("inference_rejected", `generate: sampling.temperature is ${temperature}`, {
      hint: "vLLM raises it to 0.01 silently. Use 0 for greedy decoding, or 0.01 and more.",
      details: { field: "sampling.temperature", value: temperature },
    })
}

function isUnknownModel(error: unknown): boolean {
  return statusOf(error) === 404 && isCohortError(error) && error.details?.field === "model"
}

/** 403: started without --enable-scale-out. 404 and 405 that blame no model: the route does not exist. */
function routeIsClosed(error: unknown): boolean {
  const status = statusOf(error)
  if (status === 403 || status === 405) return true
  return status === 404 && !isUnknownModel(error)
}

/** Undefined when the server refuses the call, which older servers do with routes that they lack. */
async function orRefused(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    if (isCohortError(error) && error.code === "inference_rejected") return undefined
    throw error
  }
}

async function accepted(answer: Promise<unknown>): Promise<boolean> {
  return (await orRefused(answer.then(() => true))) === true
}

/** A server that answers 5xx is up but not ready; one that does not answer is an error. */
function unlessDead(error: unknown): false {
  if (isCohortError(error) && error.code === "inference_failed") return false
  throw error
}
