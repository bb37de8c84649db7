// The "cohort" block of a plugin's package.json: lets hosts list, check and refuse a plugin before any of its code runs.
import { describeValue } from "@cohort/env"
import { apiVersionProblems } from "./check.ts"
import type { Plugin } from "./define.ts"

/** Problems that forbid importing the package. A package without the block is imported and judged by its export. */
export function manifestProblems(manifest: unknown): string[] {
  const block = fieldOf(manifest, "cohort")
  if (block === undefined) return []
  if (typeof block !== "object" || block === null) return [`package.json "cohort": expected an object, got ${describeValue(block)}`]
  return apiVersionProblems(fieldOf(block, "apiVersion")).map((problem) => `package.json "cohort".${problem}`)
}

/** What the block says against what the plugin is; for the author's tests. */
export function manifestMismatches(manifest: unknown, plugin: Plugin): string[] {
  const problems: string[] = []
  const keywords = fieldOf(manifest, "keywords")
  if (!Array.isArray(keywords) || !keywords.includes("cohort-plugin")) problems.push('package.json "keywords" lacks "cohort-plugin"')
  const block = fieldOf(manifest, "cohort")
  if (block === undefined) return [...problems, 'package.json lacks the "cohort" block']
  if (fieldOf(block, "apiVersion") !== plugin.apiVersion) problems.push(`package.json "cohort".apiVersion is ${describeValue(fieldOf(block, "apiVersion"))}, the plugin says ${plugin.apiVersion}`)
  const said = fieldOf(block, "provides")
  const provided = provides(plugin)
  if (!Array.isArray(said) || said.toSorted().join() !== provided.toSorted().join()) problems.push(`package.json "cohort".provides is ${describeValue(said)}, the plugin has ${JSON.stringify(provided)}`)
  if (fieldOf(manifest, "version") !== plugin.version) problems.push(`package.json version is ${describeValue(fieldOf(manifest, "version"))}, the plugin says ${plugin.version}`)
  return problems
}

/** The parts of a plugin as the block lists them: "reward:equivalence", "environment:arithmetic", "tools:files", "tracker:wandb". */
export function provides(plugin: Plugin): string[] {
  const names = (kind: string, parts: Readonly<Record<string, unknown>> | undefined) => Object.keys(parts ?? {}).map((name) => `${kind}:${name}`)
  return [...names("reward", plugin.rewards), ...names("environment", plugin.environments), ...names("tools", plugin.tools), ...names("tracker", plugin.trackers)]
}

function fieldOf(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[key] : undefined
}
