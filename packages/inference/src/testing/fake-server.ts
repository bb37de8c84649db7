// A real HTTP server on loopback that speaks vLLM's routes with foretellable tokens and scripted failures. For tests of what talks to
// inference servers. It is built on node:http because a test must be able to drop a connection without an answer.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { readWeightNames } from "../weights-folder.ts"
import { FakeEngine, type EngineOptions } from "./fake-engine.ts"
import { answerGeneration, type GenerationRoute } from "./fake-routes.ts"

/** What happens instead of the normal answer. */
export type ScriptedFailure =
  | { readonly kind: "status"; readonly status: number; readonly body?: unknown }
  /** The connection is closed before any byte of an answer. */
  | { readonly kind: "reset" }
  /** No answer until the client gives up. */
  | { readonly kind: "hang" }
  /** The normal answer, later. */
  | { readonly kind: "delay"; readonly ms: number }

export interface FakeServerOptions extends Partial<EngineOptions> {
  readonly model?: string
  /** vLLM version it claims; below 0.32 answers carry no `weight_versions`. */
  readonly version?: string
  /** False answers 403 on `/inference/v1/generate`, like a server without --enable-scale-out. */
  readonly scaleOut?: boolean
  readonly apiKey?: string
  /** Folder it claims to have been started from. */
  readonly root?: string
}

export interface RecordedRequest {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly body: unknown
}

export interface FakeServer extends AsyncDisposable {
  readonly url: string
  readonly engine: FakeEngine
  /** Every request that arrived, oldest first. */
  readonly requests: readonly RecordedRequest[]
  /** Requests whose client went away before the answer. */
  readonly disconnects: number
  /** True once its worker died, after a request that followed a failed load. */
  readonly dead: boolean
  /** Makes the next `times` requests of a path fail. */
  fail(path: string, failure: ScriptedFailure, times?: number): void
  close(): Promise<void>
}

/**
 * Starts a fake vLLM server on a free port.
 *
 * @example
 * await using fake = await startFakeServer({ tokenMs: 5 })
 * const server = vllmServer({ url: fake.url, model: "policy" })
 */
export async function startFakeServer(options: FakeServerOptions = {}): Promise<FakeServer> {
  const engine = new FakeEngine({
    vocabSize: options.vocabSize ?? 256,
    maxModelLength: options.maxModelLength ?? 2048,
    tokenMs: options.tokenMs ?? 0,
    stopTokenId: options.stopTokenId,
    answer: options.answer,
  })
  const settings = { model: options.model ?? "policy", version: options.version ?? "0.32.0", scaleOut: options.scaleOut ?? true, maxModelLength: options.maxModelLength ?? 2048 }
  const requests: RecordedRequest[] = []
  const scripts = new Map<string, ScriptedFailure[]>()
  let disconnects = 0
  let dead = false

  const http = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => send(response, 500, errorBody(500, String(error))))
  })
  const close = () =>
    new Promise<void>((resolve) => {
      http.close(() => resolve())
      http.closeAllConnections()
    })

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(request.url ?? "/", "http://fake")
    const text = await bodyOf(request)
    const body: unknown = text === "" ? undefined : JSON.parse(text)
    requests.push({ method: request.method ?? "", path: url.pathname, query: url.search, body })
    const gone = new AbortController()
    response.on("close", () => {
      if (!response.writableFinished) gone.abort()
    })
    const failure = scripts.get(url.pathname)?.shift()
    if (failure?.kind === "reset") return void request.socket.destroy()
    if (failure?.kind === "hang") return
    if (failure?.kind === "status") return send(response, failure.status, failure.body ?? errorBody(failure.status, "scripted failure"))
    if (failure?.kind === "delay") await Bun.sleep(failure.ms)
    if (options.apiKey !== undefined && /^\/(v1|inference)\//.test(url.pathname) && request.headers.authorization !== `Bearer ${options.apiKey}`)
      return send(response, 401, { error: "Unauthorized" })
    if (request.method === "POST" && (url.pathname === "/v1/completions" || url.pathname === "/inference/v1/generate")) {
      if (url.pathname !== "/v1/completions" && !settings.scaleOut)
        return send(response, 403, { error: { message: "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out", type: "PermissionDeniedError", param: null, code: 403 } })
      if (engine.poisoned) {
        dead = true
        send(response, 500, errorBody(500, "EngineCore encountered an issue. See stack trace (above) for the root cause."))
        response.on("finish", () => void close())
        return
      }
      const answer = await answerGeneration(engine, settings, url.pathname as GenerationRoute, body, gone.signal)
      if (answer === undefined) {
        disconnects += 1
        return
      }
      return send(response, answer.status, answer.body)
    }
    const answer = await control(request.method ?? "", url, body)
    send(response, answer.status, answer.body)
  }

  const control = async (method: string, url: URL, body: unknown): Promise<{ status: number; body: unknown }> => {
    const ok = (value: unknown) => ({ status: 200, body: value })
    switch (`${method} ${url.pathname}`) {
      case "GET /health":
        return ok("")
      case "GET /version":
        return ok({ version: settings.version })
      case "GET /v1/models":
        return ok({ object: "list", data: [{ id: settings.model, object: "model", root: options.root ?? "base", parent: null, max_model_len: settings.maxModelLength }] })
      case "GET /metrics":
        return ok(`vllm:num_requests_running{engine="0"} ${engine.running}.0\nvllm:num_requests_waiting{engine="0"} ${engine.waiting}.0\nvllm:kv_cache_usage_perc{engine="0"} 0.0\n`)
      case "GET /weight_info":
        return ok({ weight_version: engine.version })
      case "GET /is_paused":
        return ok({ is_paused: engine.paused })
      case "POST /pause":
        await engine.pause(url.searchParams.get("mode") ?? "abort")
        return ok({ status: "paused" })
      case "POST /resume":
        engine.resume()
        return ok({ status: "resumed" })
      case "POST /update_weight_version":
        engine.version = (body as { new_version: string }).new_version
        return ok({ success: true, new_version: engine.version })
      case "POST /collective_rpc":
        return reload(engine, (body as { kwargs: { weights_path: string } }).kwargs.weights_path, options.root)
      default:
        return { status: 404, body: { detail: "Not Found" } }
    }
  }

  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve))
  const address = http.address()
  if (address === null || typeof address === "string") throw new Error("the fake server has no port")
  return {
    url: `http://127.0.0.1:${address.port}`,
    engine,
    requests,
    get disconnects() {
      return disconnects
    },
    get dead() {
      return dead
    },
    fail(path, failure, times = 1) {
      scripts.set(path, [...(scripts.get(path) ?? []), ...Array.from({ length: times }, () => failure)])
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Reads the folder for real; a bad one poisons the engine until a good one was loaded, as in vLLM. */
async function reload(engine: FakeEngine, folder: string, root: string | undefined): Promise<{ status: number; body: unknown }> {
  try {
    if (folder !== (root ?? "base")) await readWeightNames(folder)
  } catch (error) {
    engine.poisoned = true
    return { status: 500, body: errorBody(500, `Call to collective_rpc method failed: Worker failed with error '${String(error)}', please check the stack trace above for the root cause`) }
  }
  engine.poisoned = false
  engine.folder = folder
  return { status: 200, body: { results: [null] } }
}

function errorBody(code: number, message: string): unknown {
  return { error: { message, type: code >= 500 ? "InternalServerError" : "BadRequestError", param: null, code } }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  if (response.destroyed || response.headersSent) return
  const text = typeof body === "string" ? body : JSON.stringify(body)
  response.writeHead(status, { "content-type": typeof body === "string" ? "text/plain" : "application/json" })
  response.end(text)
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString("utf8")
}
