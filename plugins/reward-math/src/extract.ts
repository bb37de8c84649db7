// Finds the final answer in a completion. Every step is one pass over the text, so no completion makes it slow.
import { foldUnicode, trimInvisible } from "./unicode.ts"

export type Method = "boxed" | "tag" | "marker" | "number"

export interface ExtractOptions {
  /** Tried in this order; the first that finds something decides. */
  readonly methods: readonly Method[]
  /** Phrases that an answer follows, strongest first; case of letters does not matter. */
  readonly markers: readonly string[]
}

export interface Extracted {
  readonly text: string
  readonly from: Method
}

export const defaultExtract: ExtractOptions = { methods: ["boxed", "tag", "marker", "number"], markers: ["####", "answer is", "answer:", "="] }

/** Longest stretch after a marker that is read. */
const longestLine = 300

/**
 * The final answer: the last closed `\boxed{}`, unless an explicit line "Answer: ..." comes after it; else the last
 * `<answer>` block; else what follows the strongest marker; else the last number. Reasoning in `<think>` at the start is skipped.
 *
 * @example extractAnswer("\\boxed{11} sorry: \\boxed{14}", defaultExtract) // { text: "14", from: "boxed" }
 */
export function extractAnswer(completion: string, options: ExtractOptions): Extracted | undefined {
  const text = withoutReasoning(foldUnicode(completion))
  for (const method of options.methods) {
    const found = trimInvisible(finders[method](text, options.markers) ?? "")
    if (found !== "") return { text: found, from: method }
  }
  return undefined
}

/** A reference as datasets write it: a box or a `####` line inside it counts, otherwise all of it. Idempotent. */
export function referenceAnswer(reference: string): string {
  const text = foldUnicode(reference)
  const line = text.lastIndexOf("####")
  return trimInvisible(lastBox(text)?.text ?? (line === -1 ? text : lineAfter(text, line + 4)))
}

/** Text after the reasoning block at the start; "" where that block never ends. A tag that is only mentioned later changes nothing. */
export function withoutReasoning(completion: string): string {
  let text = completion.trimStart()
  const close = text.indexOf("</think>")
  // Templates may open the block in the prompt: then the completion has the closing tag only.
  if (close !== -1 && !text.slice(0, close).includes("<think>")) text = text.slice(close + 8).trimStart()
  while (text.startsWith("<think>")) {
    const end = text.indexOf("</think>")
    if (end === -1) return ""
    text = text.slice(end + 8).trimStart()
  }
  return text
}

const finders: Readonly<Record<Method, (text: string, markers: readonly string[]) => string | undefined>> = {
  boxed: (text) => {
    const box = lastBox(text)
    return box === undefined ? undefined : (answerLine(text, box.end) ?? box.text)
  },
  tag: (text) => {
    const open = text.lastIndexOf("<answer>")
    if (open === -1) return undefined
    const close = text.indexOf("</answer>", open)
    // Without a closing tag: it was the stop string.
    return text.slice(open + 8, close === -1 ? undefined : close)
  },
  marker: (text, markers) => {
    const lower = asciiLower(text)
    for (const marker of markers) {
      let at = lower.lastIndexOf(asciiLower(marker))
      // A few empty ones are passed over: "the answer is" as a heading at the very end.
      for (let tries = 0; at !== -1 && tries < 8; tries++) {
        const found = clause(lineAfter(text, at + marker.length))
        if (found !== "") return found
        at = at === 0 ? -1 : lower.lastIndexOf(asciiLower(marker), at - 1)
      }
    }
    return undefined
  },
  number: (text) => numbersIn(text.slice(-4_000)).at(-1),
}

/** The non-empty box that closes last, braces counted, in one pass. */
function lastBox(text: string): { readonly text: string; readonly end: number } | undefined {
  const open: number[] = []
  const starts = new Set(Array.from(text.matchAll(/\\(?:boxed|fbox) ?\{/g), (match) => match.index + match[0].length))
  if (starts.size === 0) return undefined
  let last: { text: string; end: number } | undefined
  for (let index = 0; index < text.length; index++) {
    const char = text[index]
    if (char === "\\") index += text[index + 1] === "{" || text[index + 1] === "}" ? 1 : 0
    else if (char === "{") open.push(index + 1)
    else if (char === "}") {
      const start = open.pop()
      if (start !== undefined && starts.has(start) && text.slice(start, index).trim() !== "") last = { text: text.slice(start, index), end: index + 1 }
    }
  }
  return last
}

/** The last line after a position that states the answer in so many words. */
function answerLine(text: string, from: number): string | undefined {
  const lines = text.slice(from).split("\n")
  const stated = /^[^\p{L}\d\n]{0,8}(?:the )?(?:final )?answer(?: is)?[*_ ]{0,4}:(.+)$/iu
  for (const line of lines.toReversed()) {
    const found = stated.exec(line.slice(0, longestLine))?.[1]
    if (found !== undefined && found.trim() !== "") return clause(found)
  }
  return undefined
}

function lineAfter(text: string, index: number): string {
  const end = text.indexOf("\n", index)
  return text.slice(index, Math.min(end === -1 ? text.length : end, index + longestLine))
}

/** Up to the end of the sentence, or to a comma that goes on in words. */
function clause(line: string): string {
  const text = line.replace(/^[:\s*_]{1,8}/u, "")
  const end = /[.;!?](?:\s|$)|,\s{1,4}(?=\p{L}{2})/u.exec(text)
  return trimInvisible(end === null ? text : text.slice(0, end.index))
}

/** Numbers in running text, each whole: with its sign, fraction, mixed fraction, per cent and attached letters. */
export function numbersIn(text: string): string[] {
  const plain = text.replace(/\\[dtc]?frac\{(-?\d{1,30})\}\{(\d{1,30})\}/g, "$1/$2")
  const found: string[] = []
  for (const match of plain.matchAll(/(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:e[-+]?\d+(?!\p{L}))?(?: \d+\/\d+| ?\/ ?\d+)?(?: ?\\?%)?\p{L}{0,12}/giu)) {
    const before = plain.slice(Math.max(0, match.index - 2), match.index)
    // Part of a name, of an exponent, of a longer fraction, of a version, or split by an invisible character.
    if (/[\p{L}\d_^/\u200b-\u200d\u2060]$|\d\.$/u.test(before)) continue
    const negative = /(?:^|[^\p{L}\d)])-$/u.test(before)
    const decimal = before.endsWith(".") ? "0." : ""
    found.push(`${negative ? "-" : ""}${decimal}${match[0]}`)
  }
  return found
}

/** Lower case that keeps every index where it was. */
function asciiLower(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
}
