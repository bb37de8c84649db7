// Picks the part that a reference means out of a plugin or of a module's exports, and says what is there when it does not fit.
import { CohortError } from "@cohort/errors"
import { type BrandKind, brandOf } from "./brand.ts"
import { checkPlugin } from "./check.ts"
import type { EnvironmentDefinition, Plugin, RewardDefinition, ToolsDefinition, TrackerDefinition } from "./define.ts"
import type { LoadedModule } from "./loader.ts"
import { didYouMean } from "./nearest.ts"

export interface Parts {
  readonly reward: RewardDefinition
  readonly environment: EnvironmentDefinition
  readonly tools: ToolsDefinition
  readonly tracker: TrackerDefinition
}
export type PartKind = keyof Parts

/** A definition with the name that metrics and errors use. */
export interface Part<Kind extends PartKind> {
  readonly name: string
  readonly definition: Parts[Kind]
}

/**
 * The named part of a plugin, or its only one.
 *
 * @throws CohortError `plugin_not_found` with the parts that exist.
 */
export function partOf<Kind extends PartKind>(kind: Kind, plugin: Plugin, part: string | undefined): Part<Kind> {
  const parts = partsOf(kind, plugin)
  const names = Object.keys(parts)
  const wanted = part ?? (names.length === 1 ? names[0] : undefined)
  const definition = wanted === undefined || !Object.hasOwn(parts, wanted) ? undefined : parts[wanted]
  if (definition !== undefined) return { name: names.length === 1 ? plugin.name : `${plugin.name}/${wanted}`, definition }
  if (names.length === 0) throw notFound(`the plugin ${plugin.name} has no ${kind}; it provides ${everything(plugin)}`, "Name another plugin.")
  if (part === undefined) throw notFound(`the plugin ${plugin.name} has ${names.length} of kind ${kind}: ${names.join(", ")}`, `Write one of them, such as "${plugin.name}/${names[0]}".`)
  throw notFound(`the plugin ${plugin.name} has no ${kind} ${JSON.stringify(part)}; it has ${names.join(", ")}.${didYouMean(part, names)}`, "Correct the name after the slash.")
}

/**
 * What a path reference means: the export of that name, else that part of the plugin that is the default export; without a name
 * the default export itself. The caller judges the value.
 *
 * @throws CohortError `plugin_not_found` with the exports that exist.
 */
export function exportOf(kind: PartKind, module: LoadedModule, text: string, part: string | undefined): unknown {
  const main = module.exports["default"]
  if (part === undefined && main !== undefined) return brandOf(main)?.kind === "plugin" ? partOf(kind, checkPlugin(main, module.path), undefined) : main
  if (part !== undefined && Object.hasOwn(module.exports, part)) return module.exports[part]
  if (part !== undefined && brandOf(main)?.kind === "plugin") return partOf(kind, checkPlugin(main, module.path), part)
  const names = Object.keys(module.exports)
  const exported = names.length === 0 ? "nothing" : names.join(", ")
  if (part === undefined) throw notFound(`${text} has no default export; it exports ${exported}`, `Write "${text}#name", or export the ${kind} as default.`)
  throw notFound(`${text}: the module ${module.path} has no export ${JSON.stringify(part)}; it exports ${exported}.${didYouMean(part, names)}`, "Correct the name after the #.")
}

/** True for the pair that `partOf` makes. */
export function isPart(value: unknown): value is Part<PartKind> {
  return typeof value === "object" && value !== null && "definition" in value && brandOf(value.definition) !== undefined
}

/** True for a definition of that kind. */
export function isDefinition<Kind extends PartKind>(kind: Kind & BrandKind, value: unknown): value is Parts[Kind] {
  return brandOf(value)?.kind === kind
}

function partsOf<Kind extends PartKind>(kind: Kind, plugin: Plugin): Readonly<Record<string, Parts[Kind]>>
function partsOf(kind: PartKind, plugin: Plugin): Readonly<Record<string, Parts[PartKind]>> {
  return { reward: plugin.rewards, environment: plugin.environments, tools: plugin.tools, tracker: plugin.trackers }[kind] ?? {}
}

function everything(plugin: Plugin): string {
  const lists = (["reward", "environment", "tools", "tracker"] as const).flatMap((kind) => Object.keys(partsOf(kind, plugin)).map((name) => `${kind} ${name}`))
  return lists.join(", ")
}

function notFound(message: string, hint: string): CohortError {
  return new CohortError("plugin_not_found", message, { hint })
}
