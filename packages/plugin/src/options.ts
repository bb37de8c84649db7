// Checks the options of a plugin's part with the schema that the plugin owns; all issues are told at once.
import { describeValue } from "@cohort/env"
import { CohortError } from "@cohort/errors"
import type { StandardSchemaV1 } from "@standard-schema/spec"

/**
 * The validated options, defaults filled in.
 *
 * @param options Absent is the same as `{}`.
 * @throws CohortError `config_invalid` with every issue and its path (`details.issues`).
 * @example await validateOptions("reward-math", definition.options, { column: "solution" })
 */
export async function validateOptions<Options>(name: string, schema: StandardSchemaV1<unknown, Options> | undefined, options: unknown = {}): Promise<Options> {
  if (schema === undefined) {
    if (typeof options === "object" && options !== null && Object.keys(options).length === 0) return options as Options
    throw new CohortError("config_invalid", `${name} takes no options, got ${describeValue(options)}`, { hint: "Remove its options." })
  }
  const result = await schema["~standard"].validate(options)
  if (result.issues === undefined) return result.value
  const issues = result.issues.map((issue) => ({ path: pathOf(issue), message: issue.message }))
  const lines = issues.map(({ path, message }) => `  - options${path === "" ? "" : `.${path}`}: ${message}`)
  throw new CohortError("config_invalid", `the options of ${name} are wrong:\n${lines.join("\n")}`, {
    hint: "The README of the plugin lists its options.",
    details: { plugin: name, issues },
  })
}

function pathOf(issue: StandardSchemaV1.Issue): string {
  return (issue.path ?? []).map((segment) => String(typeof segment === "object" ? segment.key : segment)).join(".")
}
