// Chat messages in the shape that chat templates read.
import type { Json, JsonObject } from "./json.ts"

/** A call of a tool as the model wrote it; `arguments` is the parsed object. */
export interface ToolCall {
  readonly id?: string
  readonly type: "function"
  readonly function: { readonly name: string; readonly arguments: JsonObject }
}

/** One message of a conversation. */
export interface Message {
  readonly role: "system" | "user" | "assistant" | "tool"
  readonly content: string
  readonly reasoning?: string
  readonly tool_calls?: readonly ToolCall[]
  readonly name?: string
  readonly tool_call_id?: string
}

/** A dataset row: `prompt` is plain text or messages; every other column reaches rewards and environments unchanged. */
export interface PromptRow {
  readonly id: string
  readonly prompt: string | readonly Message[]
  readonly environment?: string
  readonly [column: string]: Json | readonly Message[] | undefined
}
