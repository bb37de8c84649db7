// Checks the messages of a conversational prompt while the dataset loads, not at the first step.
import { CohortError } from "@cohort/errors"
import type { JsonObject, Message, ToolCall } from "@cohort/env"

const roles = ["system", "user", "assistant", "tool"] as const
type Fields = Readonly<Record<string, unknown>>

/**
 * Messages from a dataset. Content parts of text are joined, tool arguments written as JSON text are parsed; other fields of
 * a message are kept.
 *
 * @throws CohortError `dataset_invalid` naming the row, the message and the fix
 */
export function readMessages(value: readonly unknown[], where: string): readonly Message[] {
  if (value.length === 0) refuse(where, "the prompt has no messages", "Give at least one message.")
  return value.map((item, i) => readMessage(item, `${where}, message ${i + 1}`))
}

function readMessage(item: unknown, where: string): Message {
  if (!isFields(item)) refuse(where, `expected an object with role and content, found ${show(item)}`)
  if (item.role === undefined && item.from !== undefined) {
    refuse(where, "has from and value instead of role and content", 'Rename from to role and value to content; "human" is "user", "gpt" is "assistant".')
  }
  const role = roles.find((known) => known === item.role)
  if (role === undefined) refuse(where, `role ${show(item.role)} is not one of ${roles.join(", ")}`)
  const { tool_calls: calls, ...rest } = item
  const toolCalls = calls === undefined || calls === null ? undefined : readToolCalls(calls, where)
  return { ...rest, role, content: readContent(item.content, toolCalls !== undefined, where), ...(toolCalls && { tool_calls: toolCalls }) }
}

function readContent(content: unknown, mayBeMissing: boolean, where: string): string {
  if (typeof content === "string") return content
  if (Array.isArray(content)) return content.map((part: unknown) => readPart(part, where)).join("")
  if (mayBeMissing && (content === undefined || content === null)) return ""
  refuse(where, `content must be text, found ${show(content)}`)
}

function readPart(part: unknown, where: string): string {
  if (isFields(part) && part.type === "text" && typeof part.text === "string") return part.text
  refuse(where, `content part ${show(part)} is no text part`, 'Only { "type": "text", "text": ... } is supported.')
}

function readToolCalls(calls: unknown, where: string): readonly ToolCall[] {
  if (!Array.isArray(calls)) refuse(where, `tool_calls must be a list, found ${show(calls)}`)
  return calls.map((call: unknown) => {
    const called = isFields(call) && isFields(call.function) ? call.function : undefined
    if (called === undefined || typeof called.name !== "string") {
      refuse(where, `tool call ${show(call)} has no function with a name`, 'Expected { "type": "function", "function": { "name": ..., "arguments": { ... } } }.')
    }
    const id = isFields(call) && typeof call.id === "string" ? { id: call.id } : {}
    return { ...id, type: "function", function: { name: called.name, arguments: readArguments(called.arguments, where) } }
  })
}

function readArguments(value: unknown, where: string): JsonObject {
  const parsed = typeof value === "string" ? parseText(value) : (value ?? {})
  if (!isFields(parsed)) refuse(where, `tool arguments must be an object, found ${show(value)}`)
  // Rows are JSON already, so the values inside are.
  return parsed as JsonObject
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    // Refused by the caller, with the text itself in the message.
    return undefined
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

function show(value: unknown): string {
  return (JSON.stringify(value) ?? "nothing").slice(0, 80)
}

function refuse(where: string, message: string, hint = 'Expected { "role": "user", "content": "..." }.'): never {
  throw new CohortError("dataset_invalid", `${where}: ${message}`, { hint, details: { where } })
}
