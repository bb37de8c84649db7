// A complete tokenizer without files, for tests: ids below 256 are UTF-8 bytes, the next are the chat marks, the rest spell themselves.
import type { ChatPrompt, EngineTokenizer } from "../tokenizer.ts"

export interface ByteTokenizerOptions {
  /** At least 258. */
  readonly vocabSize?: number
  /** Default: the id of the turn end mark. */
  readonly eosTokenIds?: readonly number[]
}

const turnStart = 256
const turnEnd = 257

/** @example createByteTokenizer().encode("hi", { addSpecialTokens: false }) // Int32Array [104, 105] */
export function createByteTokenizer(options: ByteTokenizerOptions = {}): EngineTokenizer {
  const vocabSize = options.vocabSize ?? 258
  const bytes = (text: string) => [...new TextEncoder().encode(text)]

  function decode(ids: ArrayLike<number>, { skipSpecialTokens }: { readonly skipSpecialTokens: boolean }): string {
    const out: number[] = []
    for (const id of Array.from(ids)) {
      if (id < 256) out.push(id)
      else if (id === turnStart || id === turnEnd) out.push(...(skipSpecialTokens ? [] : bytes(id === turnStart ? "<|start|>" : "<|end|>")))
      else out.push(...bytes(`<${id}>`))
    }
    return new TextDecoder().decode(Uint8Array.from(out))
  }

  return {
    encode: (text) => Int32Array.from(bytes(text)),
    decode,
    encodeChat(prompt: ChatPrompt) {
      const turns = [...(prompt.tools === undefined ? [] : [{ role: "tools", content: JSON.stringify(prompt.tools) }]), ...prompt.messages]
      const ids = turns.flatMap((message) => {
        const { role, content } = message as { readonly role?: unknown; readonly content?: unknown }
        return [turnStart, ...bytes(`${String(role)}\n${typeof content === "string" ? content : JSON.stringify(content ?? null)}`), turnEnd]
      })
      if (prompt.continueFinalMessage) ids.pop()
      return Int32Array.from(prompt.addGenerationPrompt ? [...ids, turnStart, ...bytes("assistant\n")] : ids)
    },
    tokenString: (id) => decode([id], { skipSpecialTokens: false }),
    eosTokenIds: options.eosTokenIds ?? [turnEnd],
    vocabSize,
  }
}
