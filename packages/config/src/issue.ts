// One thing wrong with a config, and the error that lists them all.
import { CohortError } from "@cohort/errors"
import { type JsonValue, showValue, toJsonValue } from "./json.ts"

/** One problem; every field is JSON. */
export interface ConfigIssue {
  readonly kind: "unknown" | "missing" | "invalid" | "combination"
  /** Dotted path, with `[0]` for the items of a list; empty where no path can be named. */
  readonly path: string
  /** What was given; absent when nothing was. */
  readonly value?: JsonValue
  readonly expected: string
  /** Where the value came from, as {@link Origins} says it. */
  readonly origin: string
  /** What to do about it. */
  readonly fix?: string
  /** Known paths that may have been meant, best first. */
  readonly suggestions: readonly string[]
}

/** An issue from what is known about it. */
export function makeIssue(issue: {
  kind: ConfigIssue["kind"]
  path: string
  value?: unknown
  expected: string
  origin: string
  fix?: string | undefined
  suggestions?: readonly string[]
}): ConfigIssue {
  return {
    kind: issue.kind,
    path: issue.path,
    ...(issue.value === undefined ? {} : { value: toJsonValue(issue.value) }),
    expected: issue.expected,
    origin: issue.origin,
    ...(issue.fix === undefined ? {} : { fix: issue.fix }),
    suggestions: issue.suggestions ?? [],
  }
}

function line(issue: ConfigIssue): string {
  const value = issue.value === undefined ? "" : showValue(issue.value)
  const given = [issue.path, value].filter((part) => part !== "").join(" = ")
  const head = issue.kind === "missing" ? `${issue.path} is missing` : given === "" ? "the config" : given
  const origin = issue.origin === "default" && issue.kind === "missing" ? "" : ` (${issue.origin})`
  const meant = issue.suggestions.length === 0 ? "" : ` Did you mean ${issue.suggestions.join(" or ")}?`
  const wanted = issue.kind === "unknown" ? issue.expected : `expected ${issue.expected}`
  const fix = issue.fix === undefined ? "" : ` ${issue.fix}`
  return `${head}${origin}: ${wanted}.${meant}${fix}`
}

/** All problems as one `config_invalid` error; `details.issues` holds them as data. */
export function configError(issues: readonly ConfigIssue[]): CohortError {
  const count = issues.length === 1 ? "1 problem" : `${issues.length} problems`
  return new CohortError("config_invalid", `${count} in the configuration:\n${issues.map((issue) => `  ${line(issue)}`).join("\n")}`, {
    hint: "`cohort config show` prints every setting with its origin; docs/config.md lists what each one takes.",
    details: { issues },
  })
}
