// The one error type of Cohort: a closed set of codes, a hint that says how to fix it, the cause kept.
// A package of its own so that every other package can throw it and still install alone.

/** What went wrong, as a key that programs can switch on. */
export type CohortErrorCode =
  | "config_invalid"
  | "config_not_found"
  | "plugin_not_found"
  | "plugin_invalid"
  | "dataset_invalid"
  | "tokenizer_invalid"
  | "model_invalid"
  | "file_invalid"
  | "disk_full"
  | "runtime_unavailable"
  | "tensor_failed"
  | "numeric"
  | "inference_unreachable"
  | "inference_rejected"
  | "inference_failed"
  | "transfer_failed"
  | "reward_failed"
  | "environment_failed"
  | "worker_failed"
  | "checkpoint_invalid"
  | "port_in_use"
  | "timeout"
  | "aborted"
  | "internal"

/** Options of {@link CohortError}. */
export interface CohortErrorOptions {
  /** One sentence that tells the reader what to do about it. */
  hint?: string
  cause?: unknown
  /** Facts for programs: field, value, path, deadline; must be JSON. */
  details?: Readonly<Record<string, unknown>>
}

const brand = Symbol.for("cohort.error")

/**
 * The error that Cohort throws where the caller must hear of a failure.
 *
 * @example
 * throw new CohortError("file_invalid", `${path}: header is 12 bytes, the file has 8`, { hint: "Download the file again." })
 */
export class CohortError extends Error {
  readonly code: CohortErrorCode
  readonly hint: string | undefined
  readonly details: Readonly<Record<string, unknown>> | undefined
  readonly [brand] = true

  constructor(code: CohortErrorCode, message: string, options: CohortErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = "CohortError"
    this.code = code
    this.hint = options.hint
    this.details = options.details
  }

  /** Message and hint as a person reads them. */
  override toString(): string {
    return this.hint === undefined ? `${this.code}: ${this.message}` : `${this.code}: ${this.message}\n  ${this.hint}`
  }
}

/** True for a CohortError, also one made by another installed copy of this package. */
export function isCohortError(value: unknown): value is CohortError {
  return typeof value === "object" && value !== null && brand in value
}

/** The message of anything thrown; never throws itself. */
export function messageOf(value: unknown): string {
  if (value instanceof Error) return value.message
  try {
    return String(value)
  } catch {
    // An object without a usable toString, such as Object.create(null).
    return Object.prototype.toString.call(value)
  }
}

/**
 * Turns anything thrown into a CohortError, once per boundary. A CohortError passes unchanged; an abort becomes
 * `aborted`, a timeout `timeout`, a full disk `disk_full`, a taken port `port_in_use`; the rest gets `code`.
 */
export function toCohortError(value: unknown, code: CohortErrorCode = "internal", context?: string): CohortError {
  if (isCohortError(value)) return value
  const message = context === undefined ? messageOf(value) : `${context}: ${messageOf(value)}`
  const errno = (value as { code?: unknown } | null)?.code
  const name = value instanceof Error ? value.name : ""
  if (errno === "ENOSPC" || errno === "EDQUOT")
    return new CohortError("disk_full", message, { cause: value, hint: "Free disk space, or choose another folder." })
  if (errno === "EADDRINUSE")
    return new CohortError("port_in_use", message, { cause: value, hint: "Choose another port, or 0 for any free one." })
  if (name === "TimeoutError") return new CohortError("timeout", message, { cause: value })
  if (name === "AbortError") return new CohortError("aborted", message, { cause: value })
  return new CohortError(code, message, { cause: value })
}
