// One plain spelling for an answer: markup, LaTeX commands and spacing away, fractions as (a)/(b), roots as sqrt(a).
import { foldUnicode, trimInvisible } from "./unicode.ts"

/** Longer answers are compared as they are; no final answer is this long. */
export const longestAnswer = 1_000
const deepest = 24

const symbols: Readonly<Record<string, string>> = {
  ",": "", "!": "", ";": " ", ":": " ", " ": " ", quad: " ", qquad: " ", left: "", right: "", displaystyle: "", "(": "", ")": "", "[": "", "]": "",
  cdot: "*", times: "*", div: "/", pi: "π", infty: "∞", circ: "°", degree: "°", pm: "±", le: "≤", leq: "≤", ge: "≥", geq: "≥", ne: "≠", neq: "≠",
  cup: "∪", "%": "%", $: "$", "#": "#", "&": "&", _: "_", "{": "⦃", "}": "⦄", lbrace: "⦃", rbrace: "⦄",
}
const wrappers = new Set(["text", "textbf", "textit", "textrm", "mathrm", "mathbf", "mathit", "mathsf", "mbox", "operatorname", "boxed", "fbox", "emph"])
const fractions = new Set(["frac", "dfrac", "tfrac", "cfrac"])

/**
 * The plain spelling of an answer. Set braces come out as ⦃ ⦄; what is unknown stays as it is written.
 *
 * @example normalise("$\\dfrac{1}{2}$") // "(1)/(2)"
 */
export function normalise(answer: string): string {
  const text = trimMarks(foldUnicode(answer))
  if (text.length > longestAnswer) return text
  return trimMarks(
    plain(text, 0)
      .replace(/\^\(?°\)?/gu, "°")
      .replace(/\s{1,1000}/gu, " "),
  )
}

/** Emphasis, quotes and dollar signs at both ends; a full stop at the end. */
function trimMarks(text: string): string {
  const trimmed = trimInvisible(text).replace(/^[*_`"$=:\s]{1,1000}/u, "")
  let end = trimmed.length
  while (end > 0 && '*_`"$.,;:\u200b\ufeff '.includes(trimmed[end - 1]!)) end--
  return trimInvisible(trimmed.slice(0, end))
}

function plain(text: string, depth: number): string {
  if (depth > deepest) return text
  let out = ""
  let index = 0
  const argument = (): string => {
    const [inner, next] = readArgument(text, index)
    index = next
    return plain(inner, depth + 1).trim()
  }
  while (index < text.length) {
    const char = text[index]!
    if (char === "\\") {
      const name = /^\\([a-zA-Z]+|.)/su.exec(text.slice(index, index + 32))?.[1] ?? ""
      index += 1 + name.length
      if (fractions.has(name)) out += `${/\d$/.test(out) ? " " : ""}(${argument()})/(${argument()})`
      else if (name === "sqrt") out += text[index] === "[" ? "root" : `sqrt(${argument()})`
      else if (wrappers.has(name)) out += ` ${argument()} `
      else out += symbols[name] ?? `\\${name}`
    } else if (char === "{") out += group(argument(), out)
    else {
      out += char === "~" ? " " : char
      index++
    }
  }
  return out
}

/** Braces that only hold together are dropped; with commas inside they are a set, unless they hold one digit separator. */
function group(inner: string, before: string): string {
  if (inner === ",") return ","
  if (/[\^_]$/.test(before)) return /^-?\w$|^°$/u.test(inner) ? inner : `(${inner})`
  if (inner.includes(",")) return `⦃${inner}⦄`
  return /^[\p{L}\d.°]*$/u.test(inner) ? inner : `(${inner})`
}

/** A group in braces, a command, or one character, and the index after it. */
function readArgument(text: string, from: number): [inner: string, next: number] {
  let start = from
  while (text[start] === " ") start++
  if (text[start] === "\\") {
    const command = /^\\(?:[a-zA-Z]+|.)/su.exec(text.slice(start, start + 32))?.[0] ?? ""
    return [command, start + Math.max(1, command.length)]
  }
  if (text[start] !== "{") return [text.slice(start, start + 1), start + 1]
  let open = 0
  for (let index = start; index < text.length; index++) {
    if (text[index] === "\\") index++
    else if (text[index] === "{") open++
    else if (text[index] === "}" && --open === 0) return [text.slice(start + 1, index), index + 1]
  }
  return [text.slice(start + 1), text.length]
}
