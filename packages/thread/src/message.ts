// What crosses the border: calls, replies, errors as plain data.
import { CohortError, type CohortErrorCode, toCohortError } from "@cohort/errors"

export interface CallMessage {
  readonly id: number
  readonly method: string
  readonly args: readonly unknown[]
}

/** An error as it crosses. */
export interface PlainError {
  readonly code: CohortErrorCode
  readonly message: string
  readonly hint: string | undefined
  readonly details: Readonly<Record<string, unknown>> | undefined
}

export type ReplyMessage = { readonly id: number; readonly ok: true; readonly value: unknown } | { readonly id: number; readonly ok: false; readonly error: PlainError }

/** The part of a `Worker`, a `MessagePort` or a worker's own global that calls need. */
export interface Port {
  postMessage(message: unknown, transfer?: Bun.Transferable[]): void
  addEventListener(type: "message", listener: (event: MessageEvent) => void): void
}

/** An error without its class, stack and cause, none of which survive the border. */
export function toPlain(thrown: unknown, unknownCode: CohortErrorCode): PlainError {
  const { code, message, hint, details } = toCohortError(thrown, unknownCode)
  return { code, message, hint, details }
}

export function fromPlain({ code, message, hint, details }: PlainError): CohortError {
  return new CohortError(code, message, { ...(hint === undefined ? {} : { hint }), ...(details === undefined ? {} : { details }) })
}

/** The memory behind a result, to be moved rather than copied. A view of part of a buffer is copied: the rest belongs to somebody else. */
export function buffersOf(value: unknown): ArrayBuffer[] {
  const found = new Set<ArrayBuffer>()
  const visit = (part: unknown): void => {
    if (ArrayBuffer.isView(part)) {
      if (part.buffer instanceof ArrayBuffer && part.byteLength === part.buffer.byteLength) found.add(part.buffer)
    } else if (typeof part === "object" && part !== null) for (const item of Object.values(part)) visit(item)
  }
  visit(value)
  return [...found]
}
