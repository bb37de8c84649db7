// Text of one completion while its tokens arrive: decodes step by step, finds stop strings and holds back what may become one.
import type { EngineTokenizer } from "./tokenizer.ts"

export interface OutputTextOptions {
  readonly stop: readonly string[]
  readonly includeStop: boolean
  readonly skipSpecialTokens: boolean
  /** Stop strings are not looked for before this many tokens. */
  readonly minTokens: number
}

/** Text that may be sent on, and the whole of it. */
export interface OutputText {
  /** Adds a token; returns the stop string that is complete now. `stopped`: it is a stop token, which shows only with `includeStop`. */
  push(tokenId: number, stopped: boolean): string | undefined
  /** Text not handed out yet that can no longer change; everything when `ended`. */
  take(ended: boolean): string
  readonly text: string
}

const replacement = "\uFFFD"

/**
 * @example
 * const out = createOutputText(tokenizer, { stop: ["\n\n"], includeStop: false, skipSpecialTokens: true, minTokens: 0 })
 * out.push(id, false) // "\n\n" once the text holds it; then out.text ends before it
 */
export function createOutputText(tokenizer: EngineTokenizer, options: OutputTextOptions): OutputText {
  const ids: number[] = []
  const holdBack = options.includeStop ? 0 : Math.max(0, ...options.stop.map((stop) => stop.length - 1))
  let text = ""
  let taken = 0
  let cut = false
  // Tokens from `windowStart` are decoded together, so that joins (spaces, split characters) come out as in the whole text;
  // those before `windowDone` are in `text` already.
  let windowStart = 0
  let windowDone = 0

  const decode = (from: number, to: number) => tokenizer.decode(ids.slice(from, to), { skipSpecialTokens: options.skipSpecialTokens })

  function readNewText(): string {
    const before = decode(windowStart, windowDone)
    const after = decode(windowStart, ids.length)
    if (after.length <= before.length || after.endsWith(replacement)) return ""
    windowStart = windowDone
    windowDone = ids.length
    return after.slice(before.length)
  }

  /** Bytes of a character that never completed, shown as the tokenizer shows them. */
  function pending(): string {
    return cut ? "" : decode(windowStart, ids.length).slice(decode(windowStart, windowDone).length)
  }

  /** Earliest stop string at or after `from`; the text then ends there. */
  function cutAtStop(from: number): string | undefined {
    let found: { readonly stop: string; readonly at: number } | undefined
    for (const stop of options.stop) {
      const at = text.indexOf(stop, from)
      if (at >= 0 && (found === undefined || at < found.at)) found = { stop, at }
    }
    if (found === undefined) return undefined
    text = text.slice(0, options.includeStop ? found.at + found.stop.length : found.at)
    cut = true
    return found.stop
  }

  return {
    get text() {
      return text + pending()
    },
    push(tokenId, stopped) {
      if (stopped && !options.includeStop) return undefined
      ids.push(tokenId)
      const fresh = readNewText()
      if (fresh === "") return undefined
      const searchFrom = Math.max(0, text.length - Math.max(0, ...options.stop.map((stop) => stop.length - 1)))
      text += fresh
      if (ids.length < options.minTokens) return undefined
      return cutAtStop(searchFrom)
    },
    take(ended) {
      const whole = ended && !cut ? text + pending() : text
      const end = ended || cut ? whole.length : Math.max(taken, wholeCharacters(whole, whole.length - holdBack))
      const part = whole.slice(taken, end)
      taken = end
      return part
    },
  }
}

/** `end`, or one less where it would split a surrogate pair. */
function wholeCharacters(text: string, end: number): number {
  const before = text.charCodeAt(end - 1)
  return before >= 0xd800 && before < 0xdc00 ? end - 1 : end
}
