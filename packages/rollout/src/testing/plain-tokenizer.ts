// A tokenizer of one id per character with a small chat template: real tokens for tests of the rollout side without a model's files.
import type { Message, ToolCall } from "@cohort/env"
import type { EpisodeTokenizer } from "../chat.ts"
import { stopTokenId } from "./simulated-server.ts"

/** Ids of text, one per UTF-16 unit. */
export function idsOf(text: string): number[] {
  return Array.from({ length: text.length }, (_, i) => text.charCodeAt(i))
}

/**
 * Renders `<role>content` and the stop token per message; an assistant turn that reads `call NAME JSON` is a tool call, and one that
 * reads `call` with anything else is a call that cannot be read.
 */
export const plainTokenizer: EpisodeTokenizer = {
  encodePrompt(prompt, tools) {
    if (typeof prompt === "string") return Int32Array.from(idsOf(prompt))
    const head = tools === undefined || tools.length === 0 ? [] : idsOf(`[${tools.map((tool) => tool.function.name).join(",")}]`)
    return Int32Array.from([...head, ...prompt.flatMap(renderMessage), ...idsOf("<assistant>")])
  },
  decode: textOf,
  parseAssistant(ids) {
    const text = textOf(ids)
    if (!text.startsWith("call")) return { message: { role: "assistant", content: text }, text }
    const [, name = "", rest = ""] = /^call (\w+) ?(.*)$/s.exec(text) ?? []
    const call = readCall(name, rest)
    if (typeof call === "string") return { message: { role: "assistant", content: text }, text, callErrors: [{ name, error: call, callsBefore: 0 }] }
    return { message: { role: "assistant", content: "", tool_calls: [call] }, text }
  },
}

function renderMessage(message: Message): number[] {
  const calls = (message.tool_calls ?? []).map((call) => `call ${call.function.name} ${JSON.stringify(call.function.arguments)}`)
  return [...idsOf(`<${message.role}>${message.content}${calls.join(";")}`), stopTokenId, ...idsOf("\n")]
}

function readCall(name: string, text: string): ToolCall | string {
  if (text === "") return { type: "function", function: { name, arguments: {} } }
  try {
    return { type: "function", function: { name, arguments: JSON.parse(text) } }
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

function textOf(ids: Int32Array): string {
  return String.fromCharCode(...ids.filter((id) => id !== stopTokenId))
}
