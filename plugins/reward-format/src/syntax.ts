// Reads the subset of JavaScript's regular expressions that can be matched in linear time.
import { CohortError } from "@cohort/plugin"

export type Node =
  | { readonly kind: "char"; readonly test: (char: string) => boolean }
  | { readonly kind: "assert"; readonly at: "start" | "end" | "boundary" | "inside" }
  | { readonly kind: "sequence"; readonly nodes: readonly Node[] }
  | { readonly kind: "choice"; readonly nodes: readonly Node[] }
  /** `most` is Infinity for * and +. */
  | { readonly kind: "repeat"; readonly node: Node; readonly least: number; readonly most: number }

export interface Flags {
  readonly ignoreCase: boolean
  /** ^ and $ match at lines. */
  readonly multiline: boolean
  /** . matches line ends. */
  readonly dotAll: boolean
}

const mostRepeats = 1_000
const deepest = 50

/**
 * The syntax tree of a pattern: characters, classes, `.`, escapes, groups, `|`, `* + ? {m,n}`, `^ $ \b \B`. Look-around,
 * back-references and named groups' references are refused: they cannot be matched in linear time.
 *
 * @throws CohortError `config_invalid` with the pattern and the reason.
 */
export function parsePattern(pattern: string, flags: Flags): Node {
  try {
    // The engine's own parser first: it gives the usual errors for what is no pattern at all.
    void new RegExp(pattern, "u")
  } catch (cause) {
    throw refused(pattern, cause instanceof Error ? cause.message : String(cause))
  }
  const chars = Array.from(pattern)
  let index = 0

  function choice(depth: number): Node {
    if (depth > deepest) throw refused(pattern, `groups are nested deeper than ${deepest}`)
    const nodes = [sequence(depth)]
    while (chars[index] === "|") {
      index++
      nodes.push(sequence(depth))
    }
    return nodes.length === 1 ? nodes[0]! : { kind: "choice", nodes }
  }

  function sequence(depth: number): Node {
    const nodes: Node[] = []
    while (index < chars.length && chars[index] !== "|" && chars[index] !== ")") nodes.push(repeated(one(depth)))
    return { kind: "sequence", nodes }
  }

  function one(depth: number): Node {
    const char = chars[index++]!
    if (char === "(") return group(depth)
    if (char === "^") return { kind: "assert", at: "start" }
    if (char === "$") return { kind: "assert", at: "end" }
    if (char === "[") return charNode(classText())
    if (char === ".") return charNode(flags.dotAll ? "[^]" : ".")
    if (char !== "\\") return charNode(char)
    const escape = escapeText()
    if (escape === "\\b") return { kind: "assert", at: "boundary" }
    if (escape === "\\B") return { kind: "assert", at: "inside" }
    if (/^\\(?:[1-9]|k)/.test(escape)) throw refused(pattern, `the back-reference ${escape} cannot be matched in linear time`)
    return charNode(escape)
  }

  function group(depth: number): Node {
    if (chars[index] === "?") {
      const head = chars.slice(index, index + 3).join("")
      if (head.startsWith("?:")) index += 2
      else if (/^\?<[^=!]/.test(head)) index = chars.indexOf(">", index) + 1
      else throw refused(pattern, `the group (${head.slice(0, 2)} is not supported; look-around cannot be matched in linear time`)
    }
    const node = choice(depth + 1)
    index++
    return node
  }

  function repeated(node: Node): Node {
    const rest = chars.slice(index, index + 24).join("")
    const match = /^(?:([*+?])|\{(\d+)(,(\d*))?\})\??/.exec(rest)
    if (match === null) return node
    index += match[0].length
    const [, sign, low, comma, high] = match
    const least = sign === undefined ? Number(low) : sign === "+" ? 1 : 0
    const most = sign === undefined ? (comma === undefined ? least : high === "" ? Number.POSITIVE_INFINITY : Number(high)) : sign === "?" ? 1 : Number.POSITIVE_INFINITY
    if (least > mostRepeats || (Number.isFinite(most) && most > mostRepeats)) throw refused(pattern, `${match[0]} repeats more than ${mostRepeats} times`)
    return { kind: "repeat", node, least, most }
  }

  /** The class whose "[" was just read, up to its "]". */
  function classText(): string {
    const start = index - 1
    while (chars[index] !== "]") index += chars[index] === "\\" ? 2 : 1
    index++
    return chars.slice(start, index).join("")
  }

  /** The escape whose "\" was just read. */
  function escapeText(): string {
    const rest = chars.slice(index, index + 64).join("")
    const body = /^(?:u\{[^}]*\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[A-Za-z]|[pP]\{[^}]*\}|\d+|.)/su.exec(rest)![0]
    index += Array.from(body).length
    return `\\${body}`
  }

  /** One character is tested by the engine itself, so classes and escapes mean what they mean everywhere. */
  function charNode(source: string): Node {
    const one = new RegExp(`^${source}$`, flags.ignoreCase ? "iu" : "u")
    const known = new Map<string, boolean>()
    const test = (char: string) => {
      const seen = known.get(char)
      if (seen !== undefined) return seen
      const matches = one.test(char)
      known.set(char, matches)
      return matches
    }
    return { kind: "char", test }
  }

  return choice(0)
}

function refused(pattern: string, why: string): CohortError {
  return new CohortError("config_invalid", `the pattern ${JSON.stringify(pattern)} is refused: ${why}`, {
    hint: "Use characters, classes, groups, |, * + ? {m,n}, ^ $ and \\b; or write a reward of your own.",
    details: { pattern },
  })
}
