// The schema of a run and the types drawn from it.
import * as v from "valibot"
import { deepFreeze, type DeepReadonly } from "./json.ts"
import { rules } from "./rule.ts"
import { runShape } from "./shape.ts"

/** What a config file holds: only `model.path` and `data.source` must be there. */
export type RunConfigInput = DeepReadonly<v.InferInput<typeof runShape>>

/**
 * Every setting of a run as a Standard Schema; its output is frozen. It also holds the rules between settings, which run once every
 * single value is right. `loadConfig` and `resolveConfig` report more: all problems at once, origins and suggestions.
 */
export const runConfigSchema = v.pipe(
  runShape,
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed) return
    for (const rule of rules) {
      const broken = rule.check(dataset.value)
      if (broken === undefined) continue
      addIssue({ message: `${rule.reads[0]}: expected ${broken.expected}. ${broken.fix}`, path: issuePath(dataset.value, rule.reads[0]) })
    }
  }),
  v.transform(deepFreeze),
)

/** Every setting of a run, defaults filled in, frozen at every level. */
export type RunConfig = v.InferOutput<typeof runConfigSchema>

/**
 * Types a config module; returns its argument.
 *
 * @example
 * export default defineConfig({ model: { path: "models/tiny" }, data: { source: "env-arithmetic" } })
 */
export function defineConfig(input: RunConfigInput): RunConfigInput {
  return input
}

function issuePath(root: object, path: string): [v.IssuePathItem, ...v.IssuePathItem[]] {
  let input: Record<string, unknown> = { ...root }
  const items = path.split(".").map((key): v.IssuePathItem => {
    const value = input[key]
    const item: v.ObjectPathItem = { type: "object", origin: "value", input, key, value }
    input = typeof value === "object" && value !== null ? { ...value } : {}
    return item
  })
  const [first, ...rest] = items
  if (first === undefined) throw new RangeError("a rule reads at least one path")
  return [first, ...rest]
}
