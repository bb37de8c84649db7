// Tool calls as the families of models write them. What cannot be read stays in the text and is reported, never thrown.
import type { JsonObject, ToolCall } from "@cohort/env"

export interface MalformedCall {
  readonly raw: string
  /** Why it is no call, for the model or a reward to hear. */
  readonly error: string
  /** Readable calls written before it. */
  readonly callsBefore: number
}

export interface FoundCalls {
  /** The text without the calls that were read. */
  readonly content: string
  readonly calls: readonly ToolCall[]
  readonly malformed: readonly MalformedCall[]
}

type Piece = ToolCall | Omit<MalformedCall, "callsBefore">

/**
 * Finds tool calls. Known forms: `<tool_call>` with JSON (Hermes, Qwen, SmolLM), `[TOOL_CALLS]` (Mistral, list or
 * `name[ARGS]json`), `<|python_tag|>` with JSON (Llama 3), and JSON alone (Llama 3) when `toolNames` has its name.
 */
export function findToolCalls(text: string, toolNames: readonly string[] = []): FoundCalls {
  if (text.includes("<tool_call>")) return tagged(text)
  if (text.includes("[TOOL_CALLS]")) return mistral(text)
  if (text.includes("<|python_tag|>")) return llama(text)
  return bare(text, toolNames)
}

function tagged(text: string): FoundCalls {
  const [opening, closing] = ["<tool_call>", "</tool_call>"]
  const pieces: Piece[] = []
  let content = ""
  let at = 0
  for (let start = text.indexOf(opening); start >= 0; start = text.indexOf(opening, at)) {
    content += text.slice(at, start)
    const bodyStart = start + opening.length
    const bodyEnd = bodyEndOf(text, bodyStart, closing)
    at = Math.min(text.length, bodyEnd + closing.length)
    const found = readCalls(text.slice(bodyStart, bodyEnd))
    pieces.push(...found)
    if (found.some(isMalformed)) content += text.slice(start, at)
  }
  return gather(content + text.slice(at), pieces)
}

// The closing tag may stand inside a JSON string; the body is the shortest one that parses.
function bodyEndOf(text: string, from: number, closing: string): number {
  const first = text.indexOf(closing, from)
  let end = first
  for (let tries = 0; end >= 0 && tries < 8; tries++) {
    if (parseJson(text.slice(from, end)) !== undefined) return end
    end = text.indexOf(closing, end + closing.length)
  }
  return first < 0 ? text.length : first
}

function mistral(text: string): FoundCalls {
  const [before = "", ...parts] = text.split("[TOOL_CALLS]")
  const pieces = parts.flatMap((part): Piece[] => {
    const body = part.trim()
    const named = /^([^[\s]+)(?:\[CALL_ID\]([^[\s]+))?\[ARGS\]([\s\S]*)$/.exec(body)
    if (named === null) return readCalls(body)
    const [, name, id, args = ""] = named
    return [toCall({ name, id, arguments: parseJson(args) ?? args }, body)]
  })
  const named = pieces.map((piece, at) => (isMalformed(piece) || piece.id !== undefined ? piece : { ...piece, id: mistralId(at) }))
  return gather(keepMalformed(before, "[TOOL_CALLS]", named), named)
}

/** Mistral's templates refuse calls and answers without an id of nine letters and digits, which its models do not always write. */
function mistralId(at: number): string {
  return `call${String(at).padStart(5, "0")}`
}

function llama(text: string): FoundCalls {
  const [before = "", ...parts] = text.split("<|python_tag|>")
  const pieces = parts.flatMap((part) => readCalls(part))
  return gather(keepMalformed(before, "<|python_tag|>", pieces), pieces)
}

function bare(text: string, toolNames: readonly string[]): FoundCalls {
  const trimmed = text.trim()
  const untouched = { content: text, calls: [], malformed: [] }
  if (toolNames.length === 0 || !/^[{[]/.test(trimmed)) return untouched
  const pieces = readCalls(trimmed)
  const known = pieces.every((piece) => !isMalformed(piece) && toolNames.includes(piece.function.name))
  return known ? gather("", pieces) : untouched
}

function keepMalformed(before: string, marker: string, pieces: readonly Piece[]): string {
  return pieces.filter(isMalformed).reduce((content, { raw }) => `${content}${marker}${raw}`, before)
}

function gather(content: string, pieces: readonly Piece[]): FoundCalls {
  const calls: ToolCall[] = []
  const malformed: MalformedCall[] = []
  for (const piece of pieces) {
    if (isMalformed(piece)) malformed.push({ ...piece, callsBefore: calls.length })
    else calls.push(piece)
  }
  return { content: content.trim(), calls, malformed }
}

// One call, a list of calls, or several separated by semicolons.
function readCalls(body: string): Piece[] {
  const raw = body.trim()
  const whole = parseJson(raw)
  if (Array.isArray(whole)) return whole.map((item) => toCall(item, raw))
  if (whole !== undefined) return [toCall(whole, raw)]
  const parts = raw.split(/;\s*(?=\{)/)
  return parts.length > 1 ? parts.map((part) => toCall(parseJson(part), part)) : [toCall(undefined, raw)]
}

function toCall(value: unknown, raw: string): Piece {
  if (value === undefined) return { raw, error: "the call is not JSON, or was cut off" }
  if (!isRecord(value)) return { raw, error: "the call must be a JSON object with name and arguments" }
  const source = isRecord(value.function) ? { id: value.id, ...value.function } : value
  const { name, id } = source
  if (typeof name !== "string" || name === "") return { raw, error: "the call has no name" }
  const given = source.arguments ?? source.parameters ?? {}
  const args = typeof given === "string" ? parseJson(given) : given
  if (!isRecord(args)) return { raw, error: `the arguments of ${name} must be a JSON object` }
  // Parsed by JSON.parse, so its values are JSON.
  return { ...(typeof id === "string" && { id }), type: "function", function: { name, arguments: args as JsonObject } }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    // What a model wrote need not be JSON: that is an answer, not a failure.
    return undefined
  }
}

function isMalformed(piece: Piece): piece is Omit<MalformedCall, "callsBefore"> {
  return "error" in piece
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}
