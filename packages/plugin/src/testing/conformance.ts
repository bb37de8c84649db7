// The checks that every plugin must pass, as a list of problems, so that they run under any test runner and in a command line.
import type { ToolSet } from "@cohort/env"
import { isCohortError, messageOf } from "@cohort/errors"
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { pluginProblems } from "../check.ts"
import type { Plugin } from "../define.ts"
import { manifestMismatches } from "../manifest.ts"
import { toolSetProblems } from "../shape.ts"
import { validateOptions } from "../options.ts"
import { environmentProblems } from "./environment-checks.ts"
import { fakeSetupContext } from "./fake.ts"
import { rewardProblems } from "./reward-checks.ts"

export interface ConformanceSettings {
  /** Options per part, "rewards.equivalence"; a part without an entry is set up with `{}`. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Columns of the rows that rewards get; needed columns that are missing hold "42". */
  readonly row?: Readonly<Record<string, string | number>>
  /** The plugin's package.json, compared with the plugin where given. */
  readonly manifest?: unknown
  /** Longest time one score of a garbage text may take; default 500 ms. */
  readonly scoreMs?: number
  /** Milliseconds; default performance.now. */
  readonly now?: () => number
}

export interface ConformanceReport {
  /** "rewards.equivalence never throws: ..." One line each; empty when the plugin conforms. */
  readonly problems: readonly string[]
  /** Parts that were set up and run. Trackers talk to services, so only their definition is checked. */
  readonly ran: readonly string[]
}

/**
 * Runs a plugin against the contract: brand and shape, package.json, option schemas (refuse unknown keys, never throw), and per
 * reward: same result for the same seed, no throw and no stall on garbage text, declared range, JSON results, no score where
 * a needed column is missing, close; per environment: same rows for the same seed, held-out apart from train, unique ids.
 *
 * @example
 * test("conforms", async () => expect((await conformance(plugin)).problems).toEqual([]))
 */
export async function conformance(plugin: Plugin, settings: ConformanceSettings = {}): Promise<ConformanceReport> {
  const problems = pluginProblems(plugin)
  if (problems.length > 0) return { problems, ran: [] }
  if (settings.manifest !== undefined) problems.push(...manifestMismatches(settings.manifest, plugin))
  const ran: string[] = []
  const visit = async (at: string, schema: StandardSchemaV1<unknown, unknown> | undefined, run?: (options: unknown) => Promise<string[]>) => {
    const given = settings.options?.[at] ?? {}
    problems.push(...(await schemaProblems(schema, given)).map((problem) => `${at} ${problem}`))
    if (run === undefined) return
    try {
      problems.push(...(await run(await validateOptions(at, schema, given))).map((problem) => `${at} ${problem}`))
      ran.push(at)
    } catch (error) {
      problems.push(`${at} cannot be set up: ${messageOf(error)}`)
    }
  }
  for (const [name, definition] of Object.entries(plugin.rewards ?? {}))
    await visit(`rewards.${name}`, definition.options, (options) => rewardProblems(definition, options, settings))
  for (const [name, definition] of Object.entries(plugin.environments ?? {}))
    await visit(`environments.${name}`, definition.options, (options) => environmentProblems(definition, options))
  for (const [name, definition] of Object.entries(plugin.tools ?? {})) await visit(`tools.${name}`, definition.options, async (options) => toolsProblems(await definition.setup(options, fakeSetupContext())))
  for (const [name, definition] of Object.entries(plugin.trackers ?? {})) await visit(`trackers.${name}`, definition.options)
  return { problems, ran }
}

/** A model knows a tool by its words and its parameters alone. */
function toolsProblems(made: unknown): string[] {
  const problems = toolSetProblems(made)
  if (problems.length > 0) return problems.map((problem) => `setup returns no tools: ${problem}`)
  return Object.entries(made as ToolSet).flatMap(([name, tool]) => (tool.description.trim() === "" ? [`${name} has no description`] : []))
}

async function schemaProblems(schema: StandardSchemaV1<unknown, unknown> | undefined, good: unknown): Promise<string[]> {
  if (schema === undefined) return []
  const problems: string[] = []
  const unknownKey = "no such option"
  if (await accepts(schema, { ...(good as object), [unknownKey]: 1 }, problems)) problems.push("options: an unknown key is accepted; a misspelt option would be ignored")
  for (const wrong of [null, 42, "text", { [unknownKey]: null }])
    if (await accepts(schema, wrong, problems)) problems.push(`options: ${JSON.stringify(wrong)} is accepted`)
  return problems
}

async function accepts(schema: StandardSchemaV1<unknown, unknown>, value: unknown, problems: string[]): Promise<boolean> {
  try {
    await validateOptions("options", schema, value)
    return true
  } catch (error) {
    if (!isCohortError(error)) problems.push(`options: the schema throws on ${JSON.stringify(value)}: ${messageOf(error)}`)
    return false
  }
}
