// What the engine needs of a tokenizer: text in and out for the HTTP surface, and the ids that end a completion.

/** A chat request as the template sees it; messages and tools are passed through untouched. */
export interface ChatPrompt {
  readonly messages: readonly unknown[]
  readonly tools?: readonly unknown[]
  readonly addGenerationPrompt: boolean
  readonly continueFinalMessage: boolean
  readonly chatTemplate?: string
  /** Extra variables of the template. */
  readonly templateArguments?: Readonly<Record<string, unknown>>
}

/** A tool call as OpenAI's clients read it; `arguments` is JSON text. */
export interface ParsedToolCall {
  readonly name: string
  readonly arguments: string
}

export interface EngineTokenizer {
  encode(text: string, options: { readonly addSpecialTokens: boolean }): Int32Array
  decode(ids: ArrayLike<number>, options: { readonly skipSpecialTokens: boolean }): string
  /** Renders the chat template and encodes the text. Throws CohortError `tokenizer_invalid` when the template refuses. */
  encodeChat(prompt: ChatPrompt): Int32Array
  /** The vocabulary's own spelling of one token, for `return_token_strs`. */
  tokenString(id: number): string
  /** Splits an answer to a chat with tools into what is said and what is called. Absent: calls stay text. Never throws. */
  parseToolCalls?(ids: readonly number[], toolNames: readonly string[]): { readonly content: string; readonly calls: readonly ParsedToolCall[] }
  /** Ids that end a completion; the first is the model's own end token. */
  readonly eosTokenIds: readonly number[]
  readonly vocabSize: number
}
