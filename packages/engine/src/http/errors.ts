// Errors as vLLM says them: one object, one place that turns anything thrown into it.
import { toCohortError } from "@cohort/errors"

/** An answer other than 200, thrown where a request turns out wrong. */
export class ApiError extends Error {
  readonly status: 400 | 401 | 404 | 413 | 500 | 503
  readonly type: string
  readonly param: string | null

  constructor(status: ApiError["status"], type: string, message: string, param: string | null = null) {
    super(message)
    this.name = "ApiError"
    this.status = status
    this.type = type
    this.param = param
  }
}

/** A value that makes no sense: 400 `BadRequestError`. With a `value`, the message ends as vLLM's does. */
export function badRequest(message: string, param: string | null = null, value?: string | number): ApiError {
  const tail = value === undefined ? "" : ` (parameter=${param}, value=${value})`
  return new ApiError(400, "BadRequestError", message + tail, param)
}

/** A body or query of the wrong form: 400 `Bad Request`. */
export function malformed(message: string, param: string | null = null): ApiError {
  return new ApiError(400, "Bad Request", message, param)
}

export function internal(message: string): ApiError {
  return new ApiError(500, "InternalServerError", message)
}

/** Failure of a weight call, in the words that clients of vLLM match. */
export function workerFailed(reason: string): ApiError {
  return internal(`Call to collective_rpc method failed: Worker failed with error '${reason}', please check the stack trace above for the root cause`)
}

export interface ErrorBody {
  readonly error: { readonly message: string; readonly type: string; readonly param: string | null; readonly code: number }
}

export function errorBody(error: ApiError): ErrorBody {
  return { error: { message: error.message, type: error.type, param: error.param, code: error.status } }
}

/** Anything thrown by a route or by the engine. */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown
  const error = toCohortError(thrown)
  if (error.code === "inference_rejected" || error.code === "tokenizer_invalid") return badRequest(error.message)
  return internal(error.message)
}
