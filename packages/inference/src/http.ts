// One HTTP call to an inference server: which failures are the caller's fault, which are tried again, and when to stop.
import { CohortError, messageOf, toCohortError } from "@cohort/errors"
import { blamedField, parseJson, wordsOf } from "./answer.ts"
import { backoffMs, type RetryPolicy } from "./backoff.ts"
import type { Clock } from "./clock.ts"
import { openDeadline, type Deadline } from "./deadline.ts"

/** What this package needs of `fetch`. `timeout: false` turns off Bun's own limit on a silent answer, which a paused server would hit. */
export type Fetch = (url: string, init: RequestInit & { timeout?: false }) => Promise<Response>

export interface HttpOptions {
  readonly name: string
  readonly url: string
  readonly apiKey?: string | undefined
  readonly fetch: Fetch
  readonly clock: Clock
  /** Uniform in [0, 1); jitter of the waits between tries. */
  readonly random: () => number
}

export interface Call {
  readonly method: "GET" | "POST"
  readonly path: string
  readonly body?: unknown
  readonly signal?: AbortSignal | undefined
  /** All tries and the waits between them. */
  readonly timeoutMs: number
  readonly retry: RetryPolicy
  readonly pausedMs?: (() => number) | undefined
}

/** Parsed JSON of a good answer, or its text when it is not JSON. */
export type HttpClient = (call: Call) => Promise<unknown>

type Outcome =
  | { readonly kind: "ok"; readonly value: unknown }
  | { readonly kind: "refused"; readonly error: CohortError }
  | { readonly kind: "retry"; readonly error: CohortError; readonly resetBeforeAnswer: boolean }

const retriedStatuses: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504])

/**
 * Makes the caller of one server.
 *
 * Errors: `inference_rejected` for what the server refuses (4xx, 501; its words in the message, never tried again),
 * `inference_unreachable` when no answer came, `inference_failed` for 5xx, `timeout` when an answer was still awaited at the
 * deadline, `aborted` by the signal. A connection that is reset before any byte of an answer is tried once more at once and
 * free of charge: that is how a keep-alive connection that the server closed looks (vLLM closes them after 5 s).
 */
export function httpClient(options: HttpOptions): HttpClient {
  const { name, clock, random } = options
  return async (call) => {
    const what = `${call.method} ${call.path} on ${name}`
    const deadline = openDeadline({ clock, timeoutMs: call.timeoutMs, signal: call.signal, pausedMs: call.pausedMs })
    try {
      let freeTries = 1
      for (let attempt = 1; ; attempt += 1) {
        const outcome = await attemptOnce(options, call, deadline, what)
        if (outcome.kind === "ok") return outcome.value
        if (outcome.kind === "refused") throw outcome.error
        if (outcome.resetBeforeAnswer && freeTries > 0) {
          freeTries -= 1
          attempt -= 1
          continue
        }
        if (attempt >= call.retry.attempts) throw outcome.error
        await clock.sleep(backoffMs(call.retry, attempt, random), deadline.signal)
        if (deadline.expired) throw outcome.error
        if (deadline.signal.aborted) throw aborted(what, call.signal)
      }
    } finally {
      deadline.close()
    }
  }
}

async function attemptOnce(options: HttpOptions, call: Call, deadline: Deadline, what: string): Promise<Outcome> {
  let answered = false
  try {
    const response = await options.fetch(options.url + call.path, {
      method: call.method,
      headers: headersOf(options, call),
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      signal: deadline.signal,
      timeout: false,
    })
    answered = true
    const text = await response.text()
    if (response.ok) return { kind: "ok", value: parseJson(text) ?? text }
    return failureOf(response.status, text, what)
  } catch (error) {
    if (deadline.expired)
      return {
        kind: "refused",
        error: new CohortError("timeout", `${what}: no answer within ${call.timeoutMs / 1000} s`, {
          hint: "The server may hang or be overloaded; raise the request timeout if long answers are expected.",
          details: { timeoutMs: call.timeoutMs, path: call.path },
          cause: error,
        }),
      }
    if (deadline.signal.aborted) return { kind: "refused", error: aborted(what, call.signal) }
    return {
      kind: "retry",
      resetBeforeAnswer: !answered && errnoOf(error) === "ECONNRESET",
      error: new CohortError("inference_unreachable", `${what} at ${options.url}: ${messageOf(error)}`, {
        hint: "Check that the server runs and that its address is right.",
        details: { url: options.url, path: call.path },
        cause: error,
      }),
    }
  }
}

function headersOf(options: HttpOptions, call: Call): Record<string, string> {
  return {
    ...(call.body === undefined ? {} : { "content-type": "application/json" }),
    ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
  }
}

function failureOf(status: number, body: string, what: string): Outcome {
  const field = blamedField(body)
  const details = { status, ...(field === undefined ? {} : { field }) }
  const message = `${what}: ${status} ${wordsOf(body)}`
  if (retriedStatuses.has(status))
    return { kind: "retry", resetBeforeAnswer: false, error: new CohortError("inference_failed", message, { details }) }
  const hint = hintOf(status)
  return { kind: "refused", error: new CohortError("inference_rejected", message, { details, ...(hint === undefined ? {} : { hint }) }) }
}

function hintOf(status: number): string | undefined {
  if (status === 401) return "Set the API key that the server was started with."
  if (status === 404) return "Check the model name; control routes of vLLM need VLLM_SERVER_DEV_MODE=1 on the server."
  return undefined
}

function aborted(what: string, signal: AbortSignal | undefined): CohortError {
  const reason: unknown = signal?.reason
  // A caller that aborts with an error of its own gets it named; the code stays `aborted`.
  return new CohortError("aborted", `${what}: aborted${reason === undefined ? "" : ` (${messageOf(reason)})`}`, { cause: reason })
}

function errnoOf(error: unknown): unknown {
  return (error as { code?: unknown } | null)?.code
}

/** HTTP status of an error made here, when an answer had one. */
export function statusOf(error: unknown): number | undefined {
  const status = toCohortError(error).details?.status
  return typeof status === "number" ? status : undefined
}
