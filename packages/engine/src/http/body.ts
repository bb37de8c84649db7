// The request body: JSON only, of bounded size, an object.
import type { Context } from "hono"

import { malformed } from "./errors.ts"
import { readFields, validationError, type Fields } from "./fields.ts"
import { findJsonFault } from "./json-position.ts"

/** Fields of a body that must be sent as `application/json`. */
export async function readBody(context: Context): Promise<Fields> {
  const mediaType = (context.req.header("content-type") ?? "").split(";")[0]!.trim().toLowerCase()
  if (mediaType !== "application/json") throw malformed("1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed")
  const text = await context.req.text()
  const fault = parseFault(text)
  if (fault !== undefined)
    throw validationError([{ type: "json_invalid", loc: `body.${fault.at}`, msg: "JSON decode error", input: {}, ctx: `{'error': '${fault.reason}'}` }])
  const body: unknown = JSON.parse(text)
  if (!isObject(body))
    throw validationError([{ type: "model_attributes_type", loc: "body", msg: "Input should be a valid dictionary or object to extract fields from", input: body }])
  return readFields(body)
}

/** Fields of a control call's body, whatever its content type says. */
export async function readLooseBody(context: Context): Promise<Fields> {
  const text = await context.req.text()
  const body: unknown = parseFault(text) === undefined ? JSON.parse(text) : undefined
  if (!isObject(body)) throw malformed("Invalid JSON format")
  return readFields(body)
}

function parseFault(text: string) {
  try {
    JSON.parse(text)
    return undefined
  } catch {
    // JSON.parse says only that something is wrong; the scan finds where.
    return findJsonFault(text) ?? { at: 0, reason: "Expecting value" }
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}
