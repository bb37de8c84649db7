// What a final answer is: a number with its unit, a list, or text.
import { normalise } from "./normalise.ts"
import { parseQuantity, type Quantity } from "./number.ts"

export type Answer =
  | { readonly kind: "number"; readonly quantity: Quantity; readonly name: string | undefined }
  /** `open` is "⦃" for a set, "(" or "[" for a tuple or interval, "" for answers that are just listed. */
  | { readonly kind: "list"; readonly open: string; readonly close: string; readonly items: readonly Answer[]; readonly name: string | undefined }
  | { readonly kind: "text"; readonly text: string; readonly name: string | undefined }

const pairs: Readonly<Record<string, string>> = { "(": ")", "[": "]", "⦃": "⦄" }
const deepest = 6
const mostItems = 64

/**
 * Reads an answer. Qualifiers ("for all n", "where x > 0") are cut; of an equation the right side counts, and the name on its left.
 *
 * @example readAnswer("x = \\frac{1}{2}", false) // the number 1/2, named "x"
 */
export function readAnswer(written: string, ignorePercent: boolean): Answer {
  return read(normalise(written), ignorePercent, 0)
}

function read(text: string, ignorePercent: boolean, depth: number): Answer {
  const { name, right } = equation(text)
  const body = withoutQualifier(right)
  const quantity = parseQuantity(body, ignorePercent)
  if (quantity !== undefined) return { kind: "number", quantity, name }
  const listed = depth > deepest ? undefined : listOf(body)
  if (listed === undefined) return { kind: "text", text: plainText(body), name }
  const items = listed.items.map((item) => read(item, ignorePercent, depth + 1))
  const only = items.length === 1 ? items[0] : undefined
  return only === undefined ? { kind: "list", open: listed.open, close: listed.close, items, name } : { ...only, name: only.name ?? name }
}

/** "x = 4" is 4 under the name x; "37+58 = 95" is 95. A list splits before its equations do. */
function equation(text: string): { readonly name: string | undefined; readonly right: string } {
  const at = text.lastIndexOf("=")
  if (at <= 0 || at === text.length - 1 || /[<>!≤≥≠]/u.test(text) || splitTop(text).length > 1) return { name: undefined, right: text }
  const left = text.slice(0, at).trim()
  return { name: /^\p{L}\w{0,2}(?:\(\p{L}\))?$/u.test(left) ? left : undefined, right: text.slice(at + 1).trim() }
}

function withoutQualifier(text: string): string {
  const cut = /\s(?:for (?:all|any|every|each)|where|such that)\s/u.exec(text)
  return cut === null || cut.index === 0 ? text : text.slice(0, cut.index).trim()
}

function listOf(text: string): { readonly open: string; readonly close: string; readonly items: readonly string[] } | undefined {
  const open = text[0] ?? ""
  const close = pairs[open] === undefined ? undefined : text.at(-1)
  // (0, 1] closes with another bracket than it opens; a set does not.
  const wraps = close !== undefined && (open === "⦃" ? close === "⦄" : close === ")" || close === "]") && closesAtEnd(text)
  const inner = wraps ? text.slice(1, -1) : text
  const items = splitTop(inner)
    .flatMap((item) => (item.startsWith("±") ? [item.slice(1).trim(), `-${item.slice(1).trim()}`] : [item]))
    .filter((item) => item !== "")
  if ((items.length < 2 && !wraps) || items.length === 0 || items.length > mostItems) return undefined
  return wraps ? { open, close, items } : { open: "", close: "", items }
}

/** True where the bracket that opens the text closes with its last character. */
function closesAtEnd(text: string): boolean {
  let depth = 0
  for (let index = 0; index < text.length; index++) {
    if ("([⦃".includes(text[index]!)) depth++
    else if (")]⦄".includes(text[index]!) && --depth === 0) return index === text.length - 1
  }
  return false
}

/** Parts between commas, semicolons and "and" outside brackets. With ", " in use, a comma between digits separates thousands. */
function splitTop(text: string): string[] {
  const spaced = /, /u.test(text)
  const parts: string[] = []
  let depth = 0
  let start = 0
  for (let index = 0; index < text.length; index++) {
    const char = text[index]!
    if ("([⦃".includes(char)) depth++
    else if (")]⦄".includes(char)) depth--
    if (depth !== 0) continue
    const word = char === " " ? (/^ (?:and|or) /u.exec(text.slice(index, index + 5))?.[0].length ?? 0) : 0
    const thousands = char === "," && spaced && /^,\d{3}(?!\d)/u.test(text.slice(index, index + 5))
    if ((char !== "," && char !== ";" && word === 0) || thousands) continue
    parts.push(text.slice(start, index).trim())
    index += Math.max(0, word - 1)
    start = index + 1
  }
  parts.push(text.slice(start).trim())
  return parts
}

/** Text without the spelling differences that mean nothing: spaces, brackets around one name, a times sign before a name. */
function plainText(text: string): string {
  const bare = text.replace(/\s/gu, "").replace(/\(([\p{L}\dπ]{1,40})\)/gu, "$1").replace(/\*(?=[\p{L}(])/gu, "")
  return /^[\p{L}]*$/u.test(bare) ? bare.toLowerCase() : bare
}
