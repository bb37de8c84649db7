// One assistant turn, parsed from its text: what it thought, said and called. Any text has a reading; nothing throws.
import type { Message, ToolCall } from "@cohort/env"
import { splitReasoning } from "./reasoning.ts"
import { findToolCalls, type MalformedCall } from "./tool-calls.ts"

export interface ParseOptions {
  /** The prompt ended inside a reasoning block. */
  readonly reasoningOpen?: boolean
  /** Names of the tools on offer; JSON without any marker counts as a call only when it names one of them. */
  readonly toolNames?: readonly string[]
}

export interface ParsedAssistant {
  readonly message: Message
  readonly reasoning: string | undefined
  readonly toolCalls: readonly ToolCall[]
  /** What looked like a call and is none; its text is still in the message. */
  readonly malformed: readonly MalformedCall[]
  /** False when the text ended inside the reasoning. */
  readonly reasoningClosed: boolean
}

const endMarkers = ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "</s>"]

/**
 * Parses the text of one assistant turn, special tokens included or not. Calls inside the reasoning are not calls.
 *
 * @example
 * parseAssistant('<think>add</think><tool_call>{"name":"add","arguments":{"a":1}}</tool_call>').toolCalls[0]?.function.name // "add"
 */
export function parseAssistant(text: string, options: ParseOptions = {}): ParsedAssistant {
  const { reasoning, rest, closed } = splitReasoning(withoutEndMarkers(text), options.reasoningOpen)
  const { content, calls, malformed } = findToolCalls(rest, options.toolNames)
  const message: Message = {
    role: "assistant",
    content,
    ...(reasoning !== undefined && { reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  }
  return { message, reasoning, toolCalls: calls, malformed, reasoningClosed: closed }
}

function withoutEndMarkers(text: string): string {
  for (let rest = text; ; ) {
    const trimmed = rest.trimEnd()
    const marker = endMarkers.find((candidate) => trimmed.endsWith(candidate))
    if (marker === undefined) return rest
    rest = trimmed.slice(0, -marker.length)
  }
}
