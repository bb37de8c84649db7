// Settings given on the command line: `--train.learningRate 1e-5`, `--train.steps=20`, `--data.shuffle`, `--no-data.shuffle`.
import { type Assignment, type Assignments, assign, isAssignment, keyOf } from "./assignment.ts"
import { type ConfigIssue, makeIssue } from "./issue.ts"
import { suggest } from "./suggest.ts"
import { nodeAt } from "./tree.ts"

/** Adds a value to those already given: lists grow, the same value again is fine, another one is refused. */
function place(given: Map<string, Assignment>, next: Assignment): ConfigIssue | undefined {
  const { key } = next
  const before = given.get(next.origin)
  if (before === undefined) {
    given.set(next.origin, next)
    return undefined
  }
  if (Array.isArray(before.value) && Array.isArray(next.value)) {
    given.set(next.origin, { ...next, value: [...before.value, ...next.value] })
    return undefined
  }
  if (JSON.stringify(before.value) === JSON.stringify(next.value)) return undefined
  return makeIssue({ kind: "invalid", path: key.path, value: next.value, expected: "one value; the flag is given twice", origin: next.origin, fix: "Remove one of them." })
}

function unknownFlag(token: string, name: string, text: string | undefined): ConfigIssue {
  const node = nodeAt(name)
  const origin = `flag ${token}`
  if (node?.kind === "section") {
    const example = [...node.entries.values()][0]?.path
    return makeIssue({ kind: "unknown", path: name, value: text, expected: "a section, not a setting", origin, fix: `Set its keys one by one, as --${example}.` })
  }
  if (node?.kind === "key")
    return makeIssue({
      kind: "invalid",
      path: name,
      value: text,
      expected: node.schema.type === "boolean" ? "no value after --no-" : "a setting that is true or false after --no-",
      origin,
      fix: `Write --${name} and a value.`,
    })
  const { paths, note } = suggest(name)
  return makeIssue({ kind: "unknown", path: name, value: text, expected: note === undefined ? "unknown flag" : `unknown flag; ${note}`, origin, suggestions: paths })
}

/**
 * Reads dotted flags. A value follows after a space or `=`; a boolean alone is true, `--no-x` false; list flags may be repeated.
 *
 * @example
 * readFlags(["--train.steps", "20", "--no-data.shuffle"])
 */
export function readFlags(argv: readonly string[]): Assignments {
  const given = new Map<string, Assignment>()
  const issues: ConfigIssue[] = []
  for (let i = 0; i < argv.length; i++) {
    const token = argv[i]!
    const [, name, inline] = /^--([^=]+)(?:=([\s\S]*))?$/.exec(token) ?? []
    if (name === undefined) {
      issues.push(makeIssue({ kind: "unknown", path: "", value: token, expected: "not a flag", origin: "command line", fix: "Flags look like --train.steps 20; quote values that hold spaces." }))
      continue
    }
    const target = keyOf(name)
    const boolean = target?.key.schema.type === "boolean"
    const following = argv[i + 1]
    const takesNext =
      inline === undefined && following !== undefined && (boolean ? following === "true" || following === "false" : !following.startsWith("--"))
    const negated = target === undefined && name.startsWith("no-") ? keyOf(name.slice(3)) : undefined
    if (negated?.key.schema.type === "boolean" && inline === undefined) {
      const issue = place(given, { key: negated.key, value: false, origin: `flag --${negated.key.path}` })
      if (issue !== undefined) issues.push(issue)
      continue
    }
    if (takesNext) i++
    const text = inline ?? (takesNext ? following : boolean ? "true" : undefined)
    if (target === undefined) {
      issues.push(unknownFlag(`--${name}`, negated === undefined ? name : negated.key.path, text))
    } else if (text === undefined) {
      issues.push(makeIssue({ kind: "invalid", path: name, expected: "a value after the flag", origin: `flag --${name}` }))
    } else {
      const result = assign(target, text, `flag --${name}`)
      const issue = isAssignment(result) ? place(given, result) : result
      if (issue !== undefined) issues.push(issue)
    }
  }
  return { assignments: [...given.values()], issues }
}
