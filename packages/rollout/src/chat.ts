// What an episode asks of a tokenizer, and the tokens of messages that follow a generated turn without encoding that turn again.
import type { JsonObject, Message, ToolCall } from "@cohort/env"
import { failed, type RolloutFailure } from "./generation.ts"

/** A tool as chat templates read it. */
export interface ToolSchema {
  readonly type: "function"
  readonly function: { readonly name: string; readonly description: string; readonly parameters: JsonObject }
}

/** An assistant turn read back from its tokens. */
export interface ParsedAssistant {
  readonly message: Message
  /** Text of the turn, special tokens removed. */
  readonly text: string
  /** Calls that could not be read; each is answered with its error, so the model can try again. */
  readonly callErrors?: readonly {
    readonly name?: string
    readonly error: string
    /** Readable calls written before it; its answer comes after theirs. */
    readonly callsBefore: number
  }[]
}

/** The tokenizer as an episode uses it. */
export interface EpisodeTokenizer {
  /** Ids of a conversation with the opening of the next assistant turn; a string is plain text and gets no template. */
  encodePrompt(prompt: string | readonly Message[], tools?: readonly ToolSchema[]): Int32Array
  decode(ids: Int32Array): string
  /** Reads a turn; never throws: text that cannot be parsed is a message without calls. */
  parseAssistant(ids: Int32Array, promptIds: Int32Array, toolNames: readonly string[]): ParsedAssistant
}

/**
 * Tokens to append after a generated turn so that the template's next turn opens behind `messages`.
 *
 * The generated ids stay as they are. Two stand-in conversations that differ only in what the assistant said are rendered;
 * their common ending starts inside the end of the assistant's turn, and what lies behind the stop token is the delta. This needs
 * no property of the template but that the end of a turn does not depend on its content. The second is rendered only where a turn of this
 * shape was not seen before.
 */
export function continuationIds(
  tokenizer: EpisodeTokenizer,
  generatedIds: Int32Array,
  calls: readonly ToolCall[],
  messages: readonly Message[],
  tools: readonly ToolSchema[],
): Int32Array | RolloutFailure {
  const ending = endingOfTurn(tokenizer, calls, messages, tools)
  const stop = generatedIds.at(-1)
  const at = stop === undefined ? -1 : ending.indexOf(stop)
  if (at >= 0) return ending.slice(at + 1)
  // The model stopped with a token that the template does not write: the template's own end of turn follows it.
  const plain = calls.length === 0 ? ending : endingAfter(tokenizer, [], messages, tools)
  if (plain.length > 0) return plain
  return failed("template_broken", "the chat template writes nothing after an assistant turn", false)
}

/** The ending of the turn; where a template refuses several calls in one turn, as Llama 3's do, that of a turn with the last of them. */
function endingOfTurn(tokenizer: EpisodeTokenizer, calls: readonly ToolCall[], messages: readonly Message[], tools: readonly ToolSchema[]): Int32Array {
  if (calls.length < 2) return endingAfter(tokenizer, calls, messages, tools)
  try {
    return endingAfter(tokenizer, calls, messages, tools)
  } catch {
    // Refused for another reason, the second rendering says so.
    return endingAfter(tokenizer, calls.slice(-1), messages, tools)
  }
}

/** What a stand-in conversation holds before the ending, by the shape of the turn: with the same before, the ending begins there again. */
const knownBefore = new WeakMap<EpisodeTokenizer, Map<string, Int32Array>>()
/** Shapes of turns that are remembered per tokenizer; a run has a handful. */
const mostShapes = 256

/** What the template writes behind the content of an assistant turn; with calls, from somewhere inside the last call on. */
function endingAfter(
  tokenizer: EpisodeTokenizer,
  calls: readonly ToolCall[],
  messages: readonly Message[],
  tools: readonly ToolSchema[],
): Int32Array {
  const render = (word: string): Int32Array => {
    const standIns = calls.map((call): ToolCall => ({ ...call, function: { name: word, arguments: {} } }))
    const assistant: Message = { role: "assistant", content: word, ...(standIns.length === 0 ? {} : { tool_calls: standIns }) }
    return tokenizer.encodePrompt([{ role: "user", content: "u" }, assistant, ...messages], tools)
  }
  let known = knownBefore.get(tokenizer)
  if (known === undefined) knownBefore.set(tokenizer, (known = new Map()))
  const shape = shapeOf(calls, messages, tools)
  const rendered = render("a")
  const before = known.get(shape)
  if (before !== undefined && startsWith(rendered, before)) return rendered.slice(before.length)
  const ending = commonSuffix(rendered, render("b"))
  if (known.size >= mostShapes) known.clear()
  known.set(shape, rendered.slice(0, rendered.length - ending.length))
  return ending
}

/** Same shape, and the template most likely writes the same before the ending. */
function shapeOf(calls: readonly ToolCall[], messages: readonly Message[], tools: readonly ToolSchema[]): string {
  let shape = `${calls.length}`
  for (const { role } of messages) shape += ` ${role}`
  for (const { function: { name } } of tools) shape += `|${name}`
  return shape
}

function startsWith(ids: Int32Array, before: Int32Array): boolean {
  if (ids.length < before.length) return false
  for (let i = 0; i < before.length; i++) if (ids[i] !== before[i]) return false
  return true
}

function commonSuffix(a: Int32Array, b: Int32Array): Int32Array {
  let length = 0
  while (length < a.length && length < b.length && a[a.length - 1 - length] === b[b.length - 1 - length]) length++
  return a.slice(a.length - length)
}
