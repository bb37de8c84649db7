// Reading request fields: every fault is collected and told at once, in the form that vLLM's validation has.
import { malformed, type ApiError } from "./errors.ts"

export interface Issue {
  readonly type: string
  readonly loc: string
  readonly msg: string
  readonly input: unknown
  readonly ctx?: string
}

/** A value as the error text shows it: scalars as they are, lists and objects by their size. */
function shown(value: unknown): string {
  if (value === undefined || value === null) return "None"
  if (typeof value === "boolean") return value ? "True" : "False"
  if (Array.isArray(value)) return `<list of ${value.length} items>`
  if (typeof value === "object") return `<dict of ${Object.keys(value).length} items>`
  return String(value)
}

/** A string as Python writes it: in single quotes, or in double quotes when it holds single ones only. */
export function quoted(text: string): string {
  return text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'").replaceAll("\n", "\\n")}'`
}

const shownIssues = 10

export function validationError(issues: readonly Issue[]): ApiError {
  const lines = issues.slice(0, shownIssues).map(({ type, loc, msg, input, ctx }) => {
    const tail = ctx === undefined ? "" : `, 'ctx': ${ctx}`
    return `{'type': '${type}', 'loc': '${loc}', 'msg': ${quoted(msg)}, 'input': ${quoted(shown(input))}${tail}}`
  })
  const count = `${issues.length} validation error${issues.length === 1 ? "" : "s"}`
  return malformed(`${count}:\n  ${lines.join("\n  ")}`, issues[0]?.loc ?? null)
}

export interface Fields {
  /** The value as sent; null counts as absent. */
  raw(name: string): unknown
  integer(name: string): number | undefined
  number(name: string): number | undefined
  boolean(name: string): boolean | undefined
  string(name: string): string | undefined
  list(name: string): readonly unknown[] | undefined
  strings(name: string): readonly string[] | undefined
  integers(name: string): readonly number[] | undefined
  /** Fields of an object in a field. */
  object(name: string): Fields | undefined
  missing(name: string): void
  report(issue: Issue): void
  /** Throws when anything was wrong so far. */
  check(): void
}

/**
 * @example
 * const fields = readFields(body)
 * const maxTokens = fields.integer("max_tokens")
 * fields.check()
 */
export function readFields(body: Readonly<Record<string, unknown>>, prefix = "body", issues: Issue[] = []): Fields {
  const raw = (name: string) => body[name] ?? undefined
  const at = (name: string) => `${prefix}.${name}`
  const report = (issue: Issue) => void issues.push(issue)

  function integerAt(value: unknown, loc: string): number | undefined {
    if (typeof value === "boolean") return value ? 1 : 0
    if (typeof value === "number") {
      if (Number.isInteger(value)) return value
      report({ type: "int_from_float", loc, msg: "Input should be a valid integer, got a number with a fractional part", input: value })
    } else if (typeof value === "string") {
      if (/^\s*[+-]?\d+\s*$/.test(value)) return Number(value)
      report({ type: "int_parsing", loc, msg: "Input should be a valid integer, unable to parse string as an integer", input: value })
    } else report({ type: "int_type", loc, msg: "Input should be a valid integer", input: value })
    return undefined
  }

  function stringAt(value: unknown, loc: string): string | undefined {
    if (typeof value === "string") return value
    report({ type: "string_type", loc, msg: "Input should be a valid string", input: value })
    return undefined
  }

  function list(name: string): readonly unknown[] | undefined {
    const value = raw(name)
    if (value === undefined || Array.isArray(value)) return value as readonly unknown[] | undefined
    report({ type: "list_type", loc: at(name), msg: "Input should be a valid list", input: value })
    return undefined
  }

  const fields: Fields = {
    raw,
    report,
    list,
    integer: (name) => (raw(name) === undefined ? undefined : integerAt(raw(name), at(name))),
    number(name) {
      const value = raw(name)
      if (value === undefined || typeof value === "number") return value
      if (typeof value === "boolean") return value ? 1 : 0
      if (typeof value === "string") {
        const parsed = value.trim() === "" ? NaN : Number(value)
        if (!Number.isNaN(parsed)) return parsed
        report({ type: "float_parsing", loc: at(name), msg: "Input should be a valid number, unable to parse string as a number", input: value })
      } else report({ type: "float_type", loc: at(name), msg: "Input should be a valid number", input: value })
      return undefined
    },
    boolean(name) {
      const value = raw(name)
      if (value === undefined || typeof value === "boolean") return value
      if (value === 0 || value === "false") return false
      if (value === 1 || value === "true") return true
      report({ type: "bool_type", loc: at(name), msg: "Input should be a valid boolean", input: value })
      return undefined
    },
    string: (name) => (raw(name) === undefined ? undefined : stringAt(raw(name), at(name))),
    strings: (name) => list(name)?.flatMap((value, index) => stringAt(value, `${at(name)}.${index}`) ?? []),
    integers: (name) => list(name)?.flatMap((value, index) => integerAt(value, `${at(name)}.${index}`) ?? []),
    object(name) {
      const value = raw(name)
      if (value === undefined) return undefined
      if (typeof value === "object" && !Array.isArray(value)) return readFields(value as Record<string, unknown>, at(name), issues)
      report({ type: "dict_type", loc: at(name), msg: "Input should be a valid dictionary", input: value })
      return undefined
    },
    missing: (name) => report({ type: "missing", loc: at(name), msg: "Field required", input: Object.keys(body).length === 0 ? undefined : body }),
    check() {
      if (issues.length > 0) throw validationError(issues)
    },
  }
  return fields
}
