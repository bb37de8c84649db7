// Settings given in the environment: `COHORT__TRAIN__LEARNING_RATE=1e-5`.
import { type Assignment, type Assignments, assign, isAssignment, keyOf } from "./assignment.ts"
import { type ConfigIssue, makeIssue } from "./issue.ts"
import { ENV_PREFIX, envName } from "./keys.ts"
import { plainName, suggest } from "./suggest.ts"
import { keyNodes } from "./tree.ts"

const byName = new Map(keyNodes.map((node) => [plainName(node.path), node]))

const camel = (part: string): string => part.toLowerCase().replace(/_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

/** The dotted path that a variable's name stands for; names inside free-form tables become camelCase. */
function pathOf(name: string): string {
  const parts = name.slice(ENV_PREFIX.length).split("__").map(camel)
  for (let n = parts.length; n > 0; n--) {
    const node = byName.get(plainName(parts.slice(0, n).join(".")))
    if (node !== undefined) return [node.path, ...parts.slice(n)].join(".")
  }
  return parts.join(".")
}

/**
 * Reads the variables whose names begin with `COHORT__`; an empty one counts as unset.
 *
 * @example
 * readEnvironment({ COHORT__TRAIN__LEARNING_RATE: "1e-5" })
 */
export function readEnvironment(env: Readonly<Record<string, string | undefined>>): Assignments {
  const assignments: Assignment[] = []
  const issues: ConfigIssue[] = []
  for (const name of Object.keys(env).filter((name) => name.startsWith(ENV_PREFIX)).toSorted()) {
    const text = env[name]
    if (text === undefined || text === "") continue
    const path = pathOf(name)
    const target = keyOf(path)
    const origin = `env ${name}`
    if (target === undefined) {
      const { paths, note } = suggest(path)
      const names = paths.map(envName)
      const expected = note === undefined ? "unknown setting" : `unknown setting; ${note}`
      const fix = names.length === 0 ? undefined : `Its variable is ${names.join(" or ")}.`
      issues.push(makeIssue({ kind: "unknown", path, value: text, expected, origin, suggestions: paths, fix }))
      continue
    }
    const result = assign(target, text, origin)
    if (isAssignment(result)) assignments.push(result)
    else issues.push(result)
  }
  return { assignments, issues }
}
