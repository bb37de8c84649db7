// Text of a growing list of ids, given out only when it can no longer change: half of a multi-byte character waits.
import type { DecodeOptions, Tokenizer } from "./tokenizer.ts"

export interface StreamDecoder {
  /** Takes the next id and returns the text that became certain, often empty. */
  push(id: number): string
  /** Returns the rest; what never became a character is U+FFFD. */
  flush(): string
}

const replacement = "\ufffd"
// No character waits for this many; a run of broken bytes is let go instead of decoded again and again.
const longestWait = 32

/**
 * An incremental decoder. All its texts joined equal `tokenizer.decode` of all its ids.
 *
 * @example
 * const stream = createStreamDecoder(tokenizer, { skipSpecialTokens: true })
 * for (const id of ids) process.stdout.write(stream.push(id))
 */
export function createStreamDecoder(tokenizer: Pick<Tokenizer, "decode">, options: DecodeOptions = {}): StreamDecoder {
  // Ids since the last but one certain border: decoders may treat the first token of a list in another way.
  let window: number[] = []
  let borderAt = 0
  let given = 0

  return {
    push(id) {
      window.push(id)
      const text = tokenizer.decode(window, options)
      const certain = certainLength(text)
      const out = text.slice(given, Math.max(given, certain))
      given = Math.max(given, certain)
      if (certain === text.length && out !== "") {
        window = window.slice(borderAt)
        borderAt = window.length
        given = tokenizer.decode(window, options).length
      }
      return out
    },
    flush() {
      const rest = window.length === 0 ? "" : tokenizer.decode(window, options).slice(given)
      window = []
      borderAt = 0
      given = 0
      return rest
    },
  }
}

function certainLength(text: string): number {
  let end = text.length
  while (end > 0 && text[end - 1] === replacement) end--
  return text.length - end > longestWait ? text.length : end
}
