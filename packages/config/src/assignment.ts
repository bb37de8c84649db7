// One setting given as text, by a flag or an environment variable: which key it sets and to what.
import { describeType, isInteger } from "./describe.ts"
import { type ConfigIssue, makeIssue } from "./issue.ts"
import { isUnsafeKey } from "./json.ts"
import { readFreeText, readText } from "./text-value.ts"
import { type KeyNode, nodeAt } from "./tree.ts"

/** A key and the value laid over it. */
export interface Assignment {
  readonly key: KeyNode
  readonly value: unknown
  readonly origin: string
}

/** What flags or environment variables say. */
export interface Assignments {
  readonly assignments: readonly Assignment[]
  readonly issues: readonly ConfigIssue[]
}

/** The key that a dotted path sets: itself, or the free-form table that holds it, with the names inside. */
export function keyOf(path: string): { readonly key: KeyNode; readonly inside: readonly string[] } | undefined {
  const parts = path.split(".")
  for (let n = parts.length; n > 0; n--) {
    const node = nodeAt(parts.slice(0, n).join("."))
    if (node === undefined) continue
    const inside = parts.slice(n)
    if (node.kind === "section" || (inside.length > 0 && node.schema.type !== "record")) return undefined
    return inside.some((name) => name === "" || isUnsafeKey(name)) ? undefined : { key: node, inside }
  }
  return undefined
}

function textFix(key: KeyNode, text: string): string | undefined {
  const type = key.schema.type
  if (text.trim() === "") return "It is blank: leave it empty, or remove it."
  if (type === "boolean") return "Write true or false."
  if (type === "array" || type === "record") return "Write JSON, in quotes for the shell."
  if (type !== "number" && type !== "union") return undefined
  const number = Number(text.replaceAll("_", ""))
  const takes = isInteger(key.schema) || type === "union" ? Number.isSafeInteger(number) : Number.isFinite(number)
  return takes ? `Write ${number}.` : undefined
}

/** Reads text for a key; blank text is refused. */
export function assign(target: NonNullable<ReturnType<typeof keyOf>>, text: string, origin: string): Assignment | ConfigIssue {
  const { key, inside } = target
  if (inside.length > 0) {
    const value = inside.reduceRight<unknown>((inner, name) => ({ [name]: inner }), readFreeText(text))
    return { key, value, origin }
  }
  const read = text !== "" && text.trim() === "" ? undefined : readText(key.schema, text)
  if (read !== undefined) return { key, value: read.value, origin }
  return makeIssue({ kind: "invalid", path: key.path, value: text, expected: describeType(key.schema), origin, fix: textFix(key, text) })
}

/** Sorts what {@link assign} gave. */
export function isAssignment(result: Assignment | ConfigIssue): result is Assignment {
  return "key" in result
}
