// Looks over a plugin that was just imported and lists everything wrong with it, so that its author needs one round.
import { describeValue } from "@cohort/env"
import { CohortError } from "@cohort/errors"
import { brandOf, supportedApiVersions } from "./brand.ts"
import type { Plugin } from "./define.ts"
import { didYouMean } from "./nearest.ts"

const kinds = ["rewards", "environments", "tools", "trackers"] as const
const topKeys = ["name", "version", "apiVersion", ...kinds]
const partKeys = {
  rewards: ["summary", "options", "setup", "needs", "range", "deterministic"],
  environments: ["summary", "options", "setup"],
  tools: ["summary", "options", "setup"],
  trackers: ["summary", "options", "setup"],
} as const
const brandKinds = { rewards: "reward", environments: "environment", tools: "tools", trackers: "tracker" } as const
const namePattern = /^[a-z0-9][a-z0-9._-]*$/i

/**
 * Everything that keeps a value from being a plugin; empty for a good one.
 *
 * @example pluginProblems({}) // ["is not made by definePlugin ...", "name: ...", ...]
 */
export function pluginProblems(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [`is ${describeValue(value)}, not a plugin made by definePlugin`]
  const plugin = value as Readonly<Record<string, unknown>>
  const problems: string[] = []
  const mark = brandOf(value)
  if (mark === undefined) problems.push("is not made by definePlugin (it carries no brand)")
  else if (mark.kind !== "plugin") problems.push(`is a ${mark.kind}; wrap it in definePlugin`)
  if (!isName(plugin["name"])) problems.push(`name: expected letters, digits, ".", "_" or "-", got ${describeValue(plugin["name"])}`)
  if (typeof plugin["version"] !== "string" || plugin["version"] === "") problems.push(`version: expected a string such as "1.0.0", got ${describeValue(plugin["version"])}`)
  problems.push(...apiVersionProblems(plugin["apiVersion"]), ...unknownKeys(plugin, topKeys, ""))
  for (const kind of kinds) problems.push(...partsProblems(kind, plugin[kind]))
  if (kinds.every((kind) => countOf(plugin[kind]) === 0)) problems.push(`provides nothing: give at least one of ${kinds.join(", ")}`)
  return problems
}

/** What is wrong with an api version; both versions are in the text. */
export function apiVersionProblems(apiVersion: unknown): string[] {
  if (typeof apiVersion === "number" && supportedApiVersions.includes(apiVersion)) return []
  const supported = supportedApiVersions.join(", ")
  return [`apiVersion: the plugin is written for ${describeValue(apiVersion)}, this Cohort runs ${supported}`]
}

/**
 * The value as a plugin.
 *
 * @param origin Where it came from, for the message.
 * @throws CohortError `plugin_invalid` with all problems at once (`details.problems`).
 */
export function checkPlugin(value: unknown, origin: string): Plugin {
  const problems = pluginProblems(value)
  if (problems.length > 0)
    throw new CohortError("plugin_invalid", `${origin} is not a usable plugin:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`, {
      hint: "Make it with definePlugin from @cohort/plugin and export it as default.",
      details: { origin, problems },
    })
  return value as Plugin
}

function partsProblems(kind: (typeof kinds)[number], parts: unknown): string[] {
  if (parts === undefined) return []
  if (typeof parts !== "object" || parts === null || Array.isArray(parts)) return [`${kind}: expected an object of name to definition, got ${describeValue(parts)}`]
  return Object.entries(parts).flatMap(([name, part]) => {
    const at = `${kind}.${name}`
    return isName(name) ? partProblems(kind, at, part) : [`${at}: a name has letters, digits, ".", "_" or "-" only`]
  })
}

function partProblems(kind: (typeof kinds)[number], at: string, value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [`${at}: expected a definition, got ${describeValue(value)}`]
  const part = value as Readonly<Record<string, unknown>>
  const problems: string[] = []
  const expected = brandKinds[kind]
  const made = brandOf(value)?.kind
  if (made !== expected) problems.push(`${at}: is ${made === undefined ? "a plain object" : `a ${made}`}; make it with define${expected[0]!.toUpperCase()}${expected.slice(1)}`)
  if (typeof part["summary"] !== "string" || part["summary"].trim() === "") problems.push(`${at}.summary: expected one sentence, got ${describeValue(part["summary"])}`)
  if (typeof part["setup"] !== "function") problems.push(`${at}.setup: expected a function, got ${describeValue(part["setup"])}`)
  if (part["options"] !== undefined && !isStandardSchema(part["options"])) problems.push(`${at}.options: expected a Standard Schema (valibot, zod, arktype), got ${describeValue(part["options"])}`)
  const { needs, range, deterministic } = part
  if (needs !== undefined && typeof needs !== "function" && !(Array.isArray(needs) && needs.every((column) => typeof column === "string")))
    problems.push(`${at}.needs: expected column names or a function of the options, got ${describeValue(needs)}`)
  if (range !== undefined && !isRange(range)) problems.push(`${at}.range: expected [lowest, highest], got ${describeValue(range)}`)
  if (deterministic !== undefined && typeof deterministic !== "boolean") problems.push(`${at}.deterministic: expected true or false, got ${describeValue(deterministic)}`)
  problems.push(...unknownKeys(part, partKeys[kind], `${at}.`))
  return problems
}

function unknownKeys(value: Readonly<Record<string, unknown>>, known: readonly string[], prefix: string): string[] {
  return Object.keys(value)
    .filter((key) => !known.includes(key))
    .map((key) => `${prefix}${key}: unknown key.${didYouMean(key, known)}`)
}

function isName(value: unknown): value is string {
  return typeof value === "string" && namePattern.test(value)
}

function isStandardSchema(value: unknown): boolean {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false
  const standard = (value as { readonly "~standard"?: { readonly validate?: unknown } })["~standard"]
  return typeof standard?.validate === "function"
}

function isRange(value: unknown): boolean {
  if (!Array.isArray(value) || value.length !== 2) return false
  const [lowest, highest] = value as readonly unknown[]
  return typeof lowest === "number" && typeof highest === "number" && lowest <= highest
}

function countOf(parts: unknown): number {
  return typeof parts === "object" && parts !== null ? Object.keys(parts).length : 0
}
