// Calls across a thread border: named methods with structured-cloneable arguments, errors that stay typed, large arrays transferred.
import { CohortError, type CohortErrorCode, isCohortError, messageOf } from "@cohort/errors"

interface CallMessage {
  readonly id: number
  readonly method: string
  readonly args: readonly unknown[]
}
interface PlainError {
  readonly code: CohortErrorCode
  readonly message: string
  readonly hint: string | undefined
}
type ReplyMessage = { readonly id: number; readonly ok: true; readonly value: unknown } | { readonly id: number; readonly ok: false; readonly error: PlainError }

/** The part of a Worker, or of a worker's own global, that calls need. */
export interface Port {
  postMessage(message: unknown, transfer?: Bun.Transferable[]): void
  addEventListener(type: "message", listener: (event: MessageEvent) => void): void
}

function transferables(value: unknown, found: ArrayBuffer[] = []): ArrayBuffer[] {
  if (ArrayBuffer.isView(value)) {
    // A view of part of a buffer is copied: the rest belongs to somebody else.
    if (value.buffer instanceof ArrayBuffer && value.byteLength === value.buffer.byteLength) found.push(value.buffer)
  } else if (Array.isArray(value)) for (const item of value) transferables(item, found)
  else if (typeof value === "object" && value !== null) for (const item of Object.values(value)) transferables(item, found)
  return found
}

/** Answers calls with the methods of `handlers`, one after the other. Results give up their arrays. */
export function answerCalls(port: Port, handlers: Readonly<Record<string, (...args: never[]) => unknown>>): void {
  let last: Promise<void> = Promise.resolve()
  port.addEventListener("message", (event) => {
    const { id, method, args } = event.data as CallMessage
    last = last.then(async () => {
      try {
        const handler = handlers[method]
        if (handler === undefined) throw new CohortError("internal", `no method ${method}`)
        const value = await handler(...(args as never[]))
        port.postMessage({ id, ok: true, value } satisfies ReplyMessage, [...new Set(transferables(value))])
      } catch (error) {
        const plain: PlainError = isCohortError(error)
          ? { code: error.code, message: error.message, hint: error.hint }
          : { code: "internal", message: messageOf(error), hint: undefined }
        port.postMessage({ id, ok: false, error: plain } satisfies ReplyMessage)
      }
    })
  })
}

export interface Caller {
  /** @throws CohortError as the other side threw it; `worker_failed` once the thread is gone. */
  call<T>(method: string, ...args: readonly unknown[]): Promise<T>
  /** Fails every open and later call. */
  fail(error: CohortError): void
}

/** Calls the methods that {@link answerCalls} serves on the other side. Arguments are copied. */
export function createCaller(port: Port): Caller {
  const open = new Map<number, { resolve(value: unknown): void; reject(error: CohortError): void }>()
  let next = 0
  let failure: CohortError | undefined
  port.addEventListener("message", (event) => {
    const reply = event.data as ReplyMessage
    const waiting = open.get(reply.id)
    if (waiting === undefined) return
    open.delete(reply.id)
    if (reply.ok) waiting.resolve(reply.value)
    else waiting.reject(new CohortError(reply.error.code, reply.error.message, reply.error.hint === undefined ? {} : { hint: reply.error.hint }))
  })
  return {
    call<T>(method: string, ...args: readonly unknown[]): Promise<T> {
      if (failure !== undefined) return Promise.reject(failure)
      const id = next++
      return new Promise<T>((resolve, reject) => {
        open.set(id, { resolve: resolve as (value: unknown) => void, reject })
        port.postMessage({ id, method, args } satisfies CallMessage)
      })
    },
    fail(error) {
      failure ??= error
      for (const waiting of open.values()) waiting.reject(failure)
      open.clear()
    },
  }
}
