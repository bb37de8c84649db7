// A Hugging Face tokenizer as episodes use it.
import type { Json } from "@cohort/env"
import type { Tokenizer } from "@cohort/tokenizer"
import type { EpisodeTokenizer } from "./chat.ts"

/** Tokens at the end of a prompt that are looked at for an opened reasoning block. */
const tailTokens = 16

/**
 * Makes the tokenizer of episodes; `templateArgs` are further variables of the chat template.
 *
 * @example
 * const tokenizer = episodeTokenizer(openTokenizer("models/tiny"), { enable_thinking: false })
 */
export function episodeTokenizer(tokenizer: Tokenizer, templateArgs?: Readonly<Record<string, Json>>): EpisodeTokenizer {
  // A model may sample padding rows of its embedding; such ids have no text.
  const known = (ids: Int32Array): Int32Array => ids.filter((id) => tokenizer.idToToken(id) !== undefined)
  const decode = (ids: Int32Array): string => tokenizer.decode(known(ids), { skipSpecialTokens: true })
  return {
    decode,
    encodePrompt: (prompt, tools = []) =>
      tokenizer.encodePrompt(prompt, {
        addGenerationPrompt: true,
        tools: tools.map(({ type, function: { name, description, parameters } }) => ({ type, function: { name, description, parameters } })),
        ...(templateArgs === undefined ? {} : { args: templateArgs }),
      }),
    parseAssistant(ids, promptIds, toolNames) {
      const tail = tokenizer.decode(known(promptIds.slice(-tailTokens))).trimEnd()
      const reasoningOpen = tail.endsWith("<think>") || tail.endsWith("[THINK]")
      const { message, malformed } = tokenizer.parseIds(ids, { reasoningOpen, toolNames })
      return { message, text: decode(ids), callErrors: malformed.map(({ error, callsBefore }) => ({ error, callsBefore })) }
    },
  }
}
