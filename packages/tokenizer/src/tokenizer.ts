// A tokenizer folder opened: text to ids, ids to text, messages to the ids of a prompt.
import { CohortError, toCohortError } from "@cohort/errors"
import type { Message } from "@cohort/env"
import { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers"
import { chatTemplate, type RenderOptions } from "./chat-template.ts"
import { readTokenizerFiles, type TokenizerFiles } from "./files.ts"
import { parseAssistant, type ParsedAssistant, type ParseOptions } from "./parse-assistant.ts"
import { specialTokens } from "./special-tokens.ts"

export interface EncodeOptions {
  /** Adds what the tokenizer puts around a text of its own, as a begin token. Default false: most texts here are parts. */
  readonly addSpecialTokens?: boolean
}

export interface DecodeOptions {
  /** Default false. */
  readonly skipSpecialTokens?: boolean
}

export interface Tokenizer {
  readonly folder: string
  /** Highest id + 1, added tokens included; a model's embedding may have more rows. */
  readonly vocabSize: number
  readonly bosTokenId: number | undefined
  /** Every id that ends a generation; empty when the folder names none. */
  readonly eosTokenIds: readonly number[]
  readonly padTokenId: number
  readonly hasChatTemplate: boolean
  encode(text: string, options?: EncodeOptions): Int32Array
  /** Never part of training data: a decoded text may not encode to the same ids. */
  decode(ids: Int32Array | readonly number[], options?: DecodeOptions): string
  tokenToId(token: string): number | undefined
  idToToken(id: number): string | undefined
  /** @throws CohortError `tokenizer_invalid` without a template, or when it refuses the messages */
  renderChat(messages: readonly Message[], options?: RenderOptions): string
  /**
   * Ids of a prompt. Plain text gets the tokenizer's special tokens, one begin token at most. Messages go through the
   * chat template (`addGenerationPrompt` is true unless given), whose text is encoded as it is.
   */
  encodePrompt(prompt: string | readonly Message[], options?: RenderOptions): Int32Array
  /** Parses generated ids: end tokens at the tail are dropped, markers that are special tokens are kept. Never throws. */
  parseIds(ids: Int32Array | readonly number[], options?: ParseOptions): ParsedAssistant
}

/**
 * Opens the tokenizer of a Hugging Face model folder.
 *
 * @throws CohortError `tokenizer_invalid`
 * @example
 * const tokenizer = openTokenizer("models/tiny")
 * const ids = tokenizer.encodePrompt([{ role: "user", content: "2+2=?" }])
 */
export function openTokenizer(folder: string, options: { readonly chatTemplate?: string } = {}): Tokenizer {
  const files = readTokenizerFiles(folder)
  const { chatTemplate } = options
  return createTokenizer(chatTemplate === undefined ? files : { ...files, templates: new Map([["default", chatTemplate]]) })
}

/** A tokenizer from files that are already read. */
export function createTokenizer(files: TokenizerFiles): Tokenizer {
  const inner = build(files)
  const vocab = inner.get_vocab()
  const vocabSize = [...vocab.values()].reduce((size, id) => Math.max(size, id + 1), 0)
  const special = specialTokens(files, (token) => vocab.get(token), vocabSize)
  const template = chatTemplate(files.templates, special.texts, files.source)

  const encode = (text: string, options: EncodeOptions = {}): Int32Array => {
    const { ids, tokens } = inner.encode(text, { add_special_tokens: options.addSpecialTokens ?? false })
    return Int32Array.from(ids as readonly (number | undefined)[], (id, at) => id ?? unknownToken(files.source, tokens[at]))
  }
  const decode = (ids: Int32Array | readonly number[], options: DecodeOptions = {}): string => {
    const known = Array.from(ids)
    for (const [at, id] of known.entries()) if (inner.id_to_token(id) === undefined) unknownId(files.source, id, at, vocabSize)
    if (known.length === 0) return ""
    // Clean-up would turn " ." into "." in what the model wrote; servers decode without it, whatever the config says.
    return inner.decode(known, { skip_special_tokens: options.skipSpecialTokens ?? false, clean_up_tokenization_spaces: false })
  }
  const encodeText = (text: string): Int32Array => {
    const ids = encode(text, { addSpecialTokens: true })
    // A text that already begins with the begin token would get it twice.
    return ids.length > 1 && ids[0] === special.bosTokenId && ids[1] === ids[0] ? ids.slice(1) : ids
  }
  return {
    folder: files.source,
    vocabSize,
    bosTokenId: special.bosTokenId,
    eosTokenIds: special.eosTokenIds,
    padTokenId: special.padTokenId,
    hasChatTemplate: template.available,
    encode,
    decode,
    tokenToId: (token) => vocab.get(token),
    idToToken: (id) => inner.id_to_token(id),
    renderChat: template.render,
    encodePrompt: (prompt, options) =>
      typeof prompt === "string" ? encodeText(prompt) : encode(template.render(prompt, { addGenerationPrompt: true, ...options })),
    parseIds: (ids, options) => {
      const known = Array.from(ids).filter((id) => inner.id_to_token(id) !== undefined)
      while (special.eosTokenIds.includes(known.at(-1) ?? -1)) known.pop()
      return parseAssistant(decode(known), options)
    },
  }
}

function build(files: TokenizerFiles): HuggingFaceTokenizer {
  const model = files.tokenizer.model as { unk_token?: unknown } | undefined
  try {
    // The library looks for the unknown token of a WordLevel model in the config instead of the model.
    return new HuggingFaceTokenizer(files.tokenizer, { unk_token: model?.unk_token, ...files.config })
  } catch (error) {
    throw toCohortError(error, "tokenizer_invalid", `${files.source}: tokenizer.json`)
  }
}

function unknownToken(source: string, token: string | undefined): never {
  throw new CohortError("tokenizer_invalid", `${source}: ${JSON.stringify(token)} is not in the vocabulary, which has no unknown token`, {
    hint: "Remove the character from the text, or add an unknown token to the tokenizer.",
    details: { source, token },
  })
}

function unknownId(source: string, id: number, at: number, vocabSize: number): never {
  throw new CohortError("tokenizer_invalid", `${source}: id ${id} at position ${at} is not in the vocabulary of ${vocabSize}`, {
    hint: "The ids come from another tokenizer, or from padding rows of the embedding.",
    details: { source, id, at, vocabSize },
  })
}
