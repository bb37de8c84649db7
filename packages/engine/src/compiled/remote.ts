// A runner on the other side of a message port: whoever owns the runtime's thread exposes its runner, the engine's thread calls it.
// Results travel by transfer, errors keep their code and hint.
import { CohortError, type CohortErrorCode, toCohortError } from "@cohort/errors"
import type { ChunkOutput, ModelRunner, RunnerInfo } from "../runner.ts"

/** A `Worker`, a `MessagePort`, or a worker's own scope. */
export interface Port {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void
  addEventListener(type: "message", listener: (event: MessageEvent) => void): void
  removeEventListener(type: "message", listener: (event: MessageEvent) => void): void
}

type Method = "prefill" | "decode" | "score" | "loadWeights" | "close"
interface Call {
  readonly kind: "call"
  readonly id: number
  readonly method: Method
  readonly args: readonly unknown[]
}
interface WireError {
  readonly code: CohortErrorCode
  readonly message: string
  readonly hint: string | undefined
  readonly details: Readonly<Record<string, unknown>> | undefined
}
type Answer = { readonly kind: "answer"; readonly id: number; readonly value: unknown } | { readonly kind: "failed"; readonly id: number; readonly error: WireError }

/** What crosses a thread instead of an error object. */
export function toWire(thrown: unknown): WireError {
  const { code, message, hint, details } = toCohortError(thrown, "tensor_failed")
  return { code, message, hint, details }
}

export function fromWire(error: WireError): CohortError {
  return new CohortError(error.code, error.message, { ...(error.hint === undefined ? {} : { hint: error.hint }), ...(error.details === undefined ? {} : { details: error.details }) })
}

/** Answers calls from `port` with `runner`, one after the other. Returns a function that stops it. */
export function exposeRunner(port: Port, runner: ModelRunner): () => void {
  let last: Promise<void> = Promise.resolve()
  const answer = async ({ id, method, args }: Call): Promise<void> => {
    try {
      const value = await (runner[method] as (...args: readonly unknown[]) => Promise<unknown>)(...args)
      port.postMessage({ kind: "answer", id, value } satisfies Answer, buffersOf(value))
    } catch (thrown) {
      port.postMessage({ kind: "failed", id, error: toWire(thrown) } satisfies Answer, [])
    }
  }
  const listen = (event: MessageEvent): void => {
    const call = event.data as Call
    if (call.kind === "call") last = last.then(() => answer(call))
  }
  port.addEventListener("message", listen)
  return () => port.removeEventListener("message", listen)
}

export interface RemoteRunner extends ModelRunner {
  /** Ends all pending and later calls with `error`: the other side is gone. */
  fail(error: CohortError): void
}

/** The runner that `exposeRunner` serves at the other end of `port`; `info` is that runner's. */
export function remoteRunner(port: Port, info: RunnerInfo): RemoteRunner {
  const pending = new Map<number, PromiseWithResolvers<unknown>>()
  let nextId = 0
  let gone: CohortError | undefined
  const listen = (event: MessageEvent): void => {
    const message = event.data as Answer
    if (message.kind !== "answer" && message.kind !== "failed") return
    const waiter = pending.get(message.id)
    pending.delete(message.id)
    if (message.kind === "answer") waiter?.resolve(message.value)
    else waiter?.reject(fromWire(message.error))
  }
  port.addEventListener("message", listen)
  const call = <Result>(method: Method, ...args: readonly unknown[]): Promise<Result> => {
    if (gone !== undefined) return Promise.reject(gone)
    const waiter = Promise.withResolvers<unknown>()
    const id = nextId++
    pending.set(id, waiter)
    port.postMessage({ kind: "call", id, method, args } satisfies Call, [])
    return waiter.promise as Promise<Result>
  }
  const fail = (error: CohortError): void => {
    gone ??= error
    for (const waiter of pending.values()) waiter.reject(gone)
    pending.clear()
  }
  return {
    info,
    fail,
    prefill: (requests) => call("prefill", requests),
    decode: (inputs, steps, topLogProbs) => call<ChunkOutput>("decode", inputs, steps, topLogProbs),
    score: (tokenIds) => call<Float32Array>("score", tokenIds),
    loadWeights: (folder) => call("loadWeights", folder),
    async close() {
      if (gone !== undefined) return
      await call("close")
      port.removeEventListener("message", listen)
      fail(new CohortError("inference_failed", "the model runner is closed"))
    },
  }
}

/** The memory behind a result, to be moved rather than copied. */
function buffersOf(value: unknown): ArrayBuffer[] {
  const arrays = ArrayBuffer.isView(value) ? [value] : Object.values((value ?? {}) as object).filter((one): one is ArrayBufferView => ArrayBuffer.isView(one))
  return [...new Set(arrays.map((array) => array.buffer))].filter((buffer): buffer is ArrayBuffer => buffer instanceof ArrayBuffer)
}
