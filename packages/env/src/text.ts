// Text of prompts and messages, for rewards and environments that read words and not message lists.
import type { Message } from "./message.ts"

/**
 * The visible text of a prompt, a message or several: contents joined by a newline. Reasoning and tool calls are left out.
 *
 * @example messageText([{ role: "user", content: "2+2?" }]) // "2+2?"
 */
export function messageText(value: string | Message | readonly Message[]): string {
  if (typeof value === "string") return value
  if (isMessage(value)) return value.content
  return value.map((message) => message.content).join("\n")
}

/**
 * The question: a text prompt itself, else the content of the last user message; "" where there is none.
 *
 * @example lastUserText(rollout.prompt)
 */
export function lastUserText(prompt: string | readonly Message[]): string {
  if (typeof prompt === "string") return prompt
  return prompt.findLast((message) => message.role === "user")?.content ?? ""
}

function isMessage(value: Message | readonly Message[]): value is Message {
  return !Array.isArray(value)
}
