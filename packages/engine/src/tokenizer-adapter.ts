// @cohort/tokenizer as the engine's tokenizer.
import { CohortError } from "@cohort/errors"
import { openTokenizer, type RenderOptions, type Tokenizer } from "@cohort/tokenizer"

import type { ChatPrompt, EngineTokenizer } from "./tokenizer.ts"

type Messages = Parameters<Tokenizer["renderChat"]>[0]

/**
 * The tokenizer of a model folder for an engine. Throws `tokenizer_invalid`.
 *
 * @param modelVocabSize rows of the model's embedding: ids between the two sizes decode to nothing.
 * @example
 * createEngine({ runner, tokenizer: openEngineTokenizer(folder, runner.info.vocabSize), ... })
 */
export function openEngineTokenizer(folder: string, modelVocabSize?: number): EngineTokenizer {
  return engineTokenizer(openTokenizer(folder), modelVocabSize)
}

export function engineTokenizer(tokenizer: Tokenizer, modelVocabSize = tokenizer.vocabSize): EngineTokenizer {
  const known = (ids: ArrayLike<number>) => Array.from(ids).filter((id) => tokenizer.idToToken(id) !== undefined)
  return {
    encode: (text, options) => tokenizer.encode(text, options),
    // A model may draw a padding row of its embedding, which has no text.
    decode: (ids, options) => tokenizer.decode(known(ids), options),
    encodeChat: (prompt) => tokenizer.encode(render(tokenizer, prompt)),
    tokenString: (id) => tokenizer.idToToken(id) ?? "",
    parseToolCalls(ids, toolNames) {
      const { message, toolCalls } = tokenizer.parseIds(ids, { toolNames })
      const content = typeof message.content === "string" ? message.content : ""
      return { content, calls: toolCalls.map((call) => ({ name: call.function.name, arguments: argumentsText(call.function.arguments) })) }
    },
    eosTokenIds: tokenizer.eosTokenIds,
    vocabSize: Math.max(tokenizer.vocabSize, modelVocabSize),
  }
}

function render(tokenizer: Tokenizer, prompt: ChatPrompt): string {
  if (prompt.chatTemplate !== undefined)
    throw new CohortError("inference_rejected", "This engine takes the chat template from the model folder; chat_template in a request is not supported.", { hint: "Put chat_template.jinja into the model folder." })
  // Messages and tools are the caller's JSON; the template is what judges them.
  const messages = prompt.messages as Messages
  const options: RenderOptions = {
    addGenerationPrompt: prompt.addGenerationPrompt,
    ...(prompt.tools === undefined ? {} : { tools: prompt.tools as NonNullable<RenderOptions["tools"]> }),
    ...(prompt.templateArguments === undefined ? {} : { args: prompt.templateArguments as NonNullable<RenderOptions["args"]> }),
  }
  const text = tokenizer.renderChat(messages, options)
  if (!prompt.continueFinalMessage) return text
  return endInside(text, messages.at(-1)?.content)
}

/** The rendered text up to the end of the final message, so that the model goes on inside it. */
function endInside(text: string, final: unknown): string {
  const content = typeof final === "string" ? final.trimEnd() : ""
  const at = content === "" ? -1 : text.lastIndexOf(content)
  if (at < 0) throw new CohortError("inference_rejected", "continue_final_message needs a final message whose text the chat template shows unchanged.", { hint: "End the messages with a non-empty assistant text." })
  return text.slice(0, at + content.length)
}

function argumentsText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value)
}
