// Checks a finished draft: every value against the schema, then the rules between settings.
import * as v from "valibot"
import { describeType } from "./describe.ts"
import type { Draft } from "./draft.ts"
import { type ConfigIssue, makeIssue } from "./issue.ts"
import { showValue } from "./json.ts"
import { envName } from "./keys.ts"
import { type Rule, rules } from "./rule.ts"
import { runShape, type RunShape } from "./shape.ts"
import { editDistance, plainName } from "./suggest.ts"
import { readText } from "./text-value.ts"
import { nodeAt, type SchemaNode, unionOptions, unwrap } from "./tree.ts"

type Keys = readonly (string | number)[]

/** Problems at their true place: a union of text and table reports those of the table when a table was given. */
function* flatten(issue: v.BaseIssue<unknown>, prefix: Keys = []): Generator<{ keys: Keys; input: unknown }> {
  const keys = [...prefix, ...(issue.path ?? []).map((item) => (typeof item.key === "number" ? item.key : String(item.key)))]
  const deeper = (issue.type === "union" ? (issue.issues ?? []) : []).filter((inner) => (inner.path ?? []).length > 0)
  if (deeper.length === 0) yield { keys, input: issue.input }
  for (const inner of deeper) yield* flatten(inner, keys)
}

const showPath = (keys: Keys): string => keys.map((key, i) => (typeof key === "number" ? `[${key}]` : i === 0 ? key : `.${key}`)).join("")

function schemaAt(keys: Keys): SchemaNode | undefined {
  let schema: SchemaNode | undefined = runShape as v.GenericSchema & SchemaNode
  for (const key of keys) {
    if (schema === undefined) return undefined
    const inner: SchemaNode = unwrap(schema)
    const table: SchemaNode = [inner, ...unionOptions(inner)].find((option) => option.entries !== undefined) ?? inner
    schema = typeof key === "number" ? inner.item : table.entries?.[key]
  }
  return schema === undefined ? undefined : unwrap(schema)
}

function fixOf(schema: SchemaNode, value: unknown): string | undefined {
  if (value === null) return "Leave the key out instead of null."
  if (schema.type === "array" && !Array.isArray(value)) return `Write a list: [${showValue(value)}].`
  if (typeof value !== "string") return undefined
  if (schema.type === "boolean" && /^(yes|on|1)$/i.test(value)) return "Write true, without quotes."
  if (schema.type === "boolean" && /^(no|off|0)$/i.test(value)) return "Write false, without quotes."
  if (schema.type === "picklist") {
    const close = (schema.options ?? []).map(String).find((option) => editDistance(plainName(option), plainName(value)) <= 1)
    return close === undefined ? undefined : `Did you mean "${close}"?`
  }
  const read = readText(schema, value)
  return read !== undefined && typeof read.value !== "string" && !Array.isArray(read.value) ? `Write it without quotes: ${value}` : undefined
}

function valueIssue(keys: Keys, input: unknown, origin: string): ConfigIssue {
  const path = showPath(keys)
  const schema = schemaAt(keys)
  const expected = schema === undefined ? "a JSON value" : describeType(schema)
  if (input !== undefined) return makeIssue({ kind: "invalid", path, value: input, expected, origin, fix: schema && fixOf(schema, input) })
  const settable = nodeAt(path) === undefined ? undefined : `Set it in the config file, with --${path}, or in ${envName(path)}.`
  return makeIssue({ kind: "missing", path, expected, origin, fix: settable })
}

function readPath(value: unknown, path: string): unknown {
  let at = value
  for (const name of path.split(".")) at = typeof at === "object" && at !== null ? Reflect.get(at, name) : undefined
  return at
}

/** True when one path holds the other. */
const touches = (a: string, b: string): boolean => a === b || a.startsWith(`${b}.`) || a.startsWith(`${b}[`) || b.startsWith(`${a}.`)

/** The rules that are broken, those left out that read one of the `bad` paths. */
export function brokenRules(config: RunShape, bad: readonly string[], originOf: (path: string) => string, all: readonly Rule[] = rules): ConfigIssue[] {
  return all.flatMap(({ reads, check }) => {
    if (reads.some((path) => bad.some((other) => touches(path, other)))) return []
    const broken = check(config)
    if (broken === undefined) return []
    const [path] = reads
    return [makeIssue({ kind: "combination", path, value: readPath(config, path), expected: broken.expected, origin: originOf(path), fix: broken.fix })]
  })
}

/** The parsed run and every problem of the draft; the run is whole only when there is none. */
export function checkDraft(draft: Draft): { readonly run: RunShape; readonly issues: readonly ConfigIssue[] } {
  const parsed = v.safeParse(runShape, draft.values)
  // A key that is wrong already, or that an unknown one was meant to be, is neither missing nor fit for a rule.
  const known = draft.issues.flatMap((issue) => [issue.path, ...issue.suggestions])
  const found = (parsed.issues ?? [])
    .flatMap((issue) => [...flatten(issue)])
    .map(({ keys, input }) => valueIssue(keys, input, draft.originOf(showPath(keys))))
    // Of several failed checks of one value (not finite, too large) the first says enough.
    .filter((issue, i, all) => all.findIndex((other) => other.path === issue.path) === i)
    .filter((issue) => issue.kind !== "missing" || !known.some((path) => touches(issue.path, path)))
  const run = parsed.output as RunShape // rules read only paths without an issue, which are of their type
  const combined = brokenRules(run, [...known, ...found.map((issue) => issue.path)], (path) => draft.originOf(path))
  return { run, issues: [...draft.issues, ...found, ...combined] }
}
