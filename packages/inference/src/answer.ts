// Reading what a server said: JSON fields by name, and its own words out of the five error shapes in use.
import { CohortError } from "@cohort/errors"

export type Fields = Readonly<Record<string, unknown>>

/** The value as an object, or undefined. */
export function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined
}

/** `value` as an array, or a refusal that names where it was looked for. */
export function arrayAt(value: unknown, where: string): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw malformed(`${where} is ${describe(value)}, an array was expected`)
}

/** An answer that arrived but cannot be used; never retried by the client, since the server would say the same again. */
export function malformed(message: string, hint?: string): CohortError {
  return new CohortError("inference_failed", message, { details: { reason: "answer" }, ...(hint === undefined ? {} : { hint }) })
}

/** The JSON kind of a value, for messages. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  return Array.isArray(value) ? "an array" : `${typeof value} ${JSON.stringify(value).slice(0, 40)}`
}

/**
 * The server's own words out of an error body: `{error:{message}}` (vLLM), `{error:"text"}`, `{detail}` (FastAPI), `{message}` (SGLang),
 * or the text itself, cut to 600 characters.
 */
export function wordsOf(body: string): string {
  const words = wordsIn(parseJson(body)) ?? body.trim()
  return words === "" ? "(empty answer)" : words.slice(0, 600)
}

/** The field that the server's error blames, when it names one. */
export function blamedField(body: string): string | undefined {
  const param = fieldsOf(fieldsOf(parseJson(body))?.error)?.param
  return typeof param === "string" ? param : undefined
}

/** Parsed JSON, or undefined when the text is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

function wordsIn(body: unknown): string | undefined {
  const fields = fieldsOf(body)
  if (fields === undefined) return undefined
  const message = fieldsOf(fields.error)?.message ?? fields.error ?? fields.detail ?? fields.message
  if (message === undefined || message === null) return undefined
  return typeof message === "string" ? message : JSON.stringify(message)
}
