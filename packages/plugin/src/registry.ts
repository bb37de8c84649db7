// The plugins of one run. Nothing is scanned: a plugin is here because the config named it or code added it.
import { describeValue, type EnvironmentFactory, isReward, type RewardFunction, type RewardLike, type TaskSet, type ToolSet, toReward } from "@cohort/env"
import { CohortError, isCohortError, messageOf } from "@cohort/errors"
import { brandOf } from "./brand.ts"
import { checkPlugin } from "./check.ts"
import type { Plugin, RewardDefinition, SetupContext, Tracker } from "./define.ts"
import { exportOf, isDefinition, isPart, type Part, type PartKind, type Parts, partOf } from "./find.ts"
import { withRange } from "./guard.ts"
import { askedIn, type LoadedModule, type LoaderOptions, loadPackage, loadPath, type Search } from "./loader.ts"
import { validateOptions } from "./options.ts"
import { isPath, parseReference } from "./reference.ts"
import { isTaskSet, isTool, isToolSet, isTracker, toolSetProblems } from "./shape.ts"

/** How a config asks for a part. */
export interface Use {
  readonly options?: unknown
  /** The config key, for messages: "rewards[0].use". */
  readonly askedBy?: string
}

/** A reward ready to run. */
export interface LoadedReward {
  /** For metrics and errors: "reward-math", "my-plugin/part", the name of an inline function. */
  readonly name: string
  /** Holds to the declared range. */
  readonly reward: RewardFunction
  /** Dataset columns that it reads. */
  readonly needs: readonly string[]
  readonly range: readonly [lowest: number, highest: number] | undefined
  readonly deterministic: boolean
}

/** Tools ready to run. */
export interface LoadedTools {
  /** For errors: "my-plugin/files", the name of a module. */
  readonly name: string
  readonly tools: ToolSet
}

export type RewardReference = string | RewardLike | RewardDefinition

export interface Registry {
  readonly plugins: readonly Plugin[]
  /** Folders searched after the project's: what another process needs to find the same plugins. */
  readonly installDirs: readonly string[]
  add(plugin: Plugin, origin?: string): Plugin
  load(name: string, fromDir: string, askedBy?: string): Promise<Plugin>
  reward(reference: RewardReference, ctx: SetupContext, use?: Use): Promise<LoadedReward>
  /** The prompts of an environment, with what their episodes run in. */
  environment(reference: string | Parts["environment"], ctx: SetupContext, use?: Use): Promise<TaskSet>
  /** What episodes run in, for prompts from elsewhere. A path may also export a bare function that makes an environment. */
  environmentFactory(reference: string | EnvironmentFactory | Parts["environment"], ctx: SetupContext, use?: Use): Promise<EnvironmentFactory>
  /** A path may also export a bare tool set, or one tool, which then has the export's name. */
  tools(reference: string | ToolSet | Parts["tools"], ctx: SetupContext, use?: Use): Promise<LoadedTools>
  tracker(reference: string | Parts["tracker"], ctx: SetupContext, use?: Use): Promise<Tracker>
}

/** Plugins that come with Cohort, for "did you mean". */
export const officialPlugins: readonly string[] = ["reward-math", "reward-format", "env-arithmetic"]

/**
 * Makes an empty registry. References are resolved from `ctx.projectDir`, then from `installDirs`.
 * Its methods throw CohortError: `plugin_not_found` (what, from where, what was tried), `plugin_invalid` (all problems of the
 * plugin), `config_invalid` (all issues of the options).
 *
 * @example
 * const registry = createRegistry(systemHost())
 * const math = await registry.reward("reward-math", ctx, { options: { strict: true }, askedBy: "rewards[0].use" })
 */
export function createRegistry(host: LoaderOptions): Registry {
  const byName = new Map<string, { readonly plugin: Plugin; readonly origin: string }>()
  // Two references to one module share one import and one check.
  const byPath = new Map<string, Plugin>()

  function add(plugin: Plugin, origin = `the plugin ${describeValue(plugin?.name)} given to add`): Plugin {
    const checked = checkPlugin(plugin, origin)
    const taken = byName.get(checked.name)
    if (taken === undefined) byName.set(checked.name, { plugin: checked, origin })
    else if (taken.plugin !== checked)
      throw new CohortError("plugin_invalid", `two plugins are named ${JSON.stringify(checked.name)}: ${taken.origin} and ${origin}`, {
        hint: "Remove one of them; the name is how configs and metrics tell plugins apart.",
        details: { name: checked.name, origins: [taken.origin, origin] },
      })
    return checked
  }

  function pluginOf(module: LoadedModule, asked: string, search: Search): Plugin {
    const cached = byPath.get(module.path)
    if (cached !== undefined) return cached
    const main = module.exports["default"]
    if (main === undefined)
      throw new CohortError("plugin_invalid", `${asked} (${module.path}) has no default export, it exports ${Object.keys(module.exports).join(", ") || "nothing"}; ${askedIn(search)}`, {
        hint: "export default definePlugin({ ... })",
      })
    const plugin = add(checkPlugin(main, `${asked} (${module.path})`), `${asked} (${module.path})`)
    byPath.set(module.path, plugin)
    return plugin
  }

  async function load(name: string, search: Search): Promise<Plugin> {
    if (isPath(name)) return pluginOf(await loadPath(host, name, search), name, search)
    const known = byName.get(name)
    if (known !== undefined) return known.plugin
    return pluginOf(await loadPackage(host, name, search, [...byName.keys(), ...officialPlugins]), name, search)
  }

  /** The definition a string means, or the bare value that a path exports. */
  async function find(kind: PartKind, text: string, search: Search): Promise<unknown> {
    const reference = parseReference(text)
    if (reference.kind === "package") return partOf(kind, await load(reference.name, search), reference.part)
    const module = await loadPath(host, reference.path, search)
    if (brandOf(module.exports["default"])?.kind === "plugin") pluginOf(module, reference.path, search)
    return exportOf(kind, module, text, reference.part)
  }

  /** Definition and options, checked; `undefined` definition where the value is no definition. */
  async function resolvePart<Kind extends PartKind>(kind: Kind, reference: unknown, search: Search): Promise<{ readonly name: string; readonly definition?: Parts[Kind]; readonly value?: unknown }> {
    const value = typeof reference === "string" ? await find(kind, reference, search) : reference
    if (isPart(value)) return value as Part<Kind>
    const name = typeof reference === "string" ? nameOfPath(reference) : nameOfValue(kind, value)
    if (!isDefinition(kind, value)) return { name, value }
    // A lone definition gets the checks of a plugin that has just this one part.
    checkPlugin(asPlugin(kind, value), typeof reference === "string" ? reference : `the inline ${kind}`)
    return { name, definition: value }
  }

  async function setUp<Kind extends "environment" | "tracker">(kind: Kind, reference: unknown, ctx: SetupContext, use: Use): Promise<{ name: string; made: unknown }> {
    const { name, definition, value } = await resolvePart(kind, reference, { fromDir: ctx.projectDir, askedBy: use.askedBy })
    if (definition === undefined) throw wrongKind(kind, name, value)
    const options = await validateOptions(name, definition.options, use.options)
    return { name, made: await runSetup(name, ctx, (prefixed) => definition.setup(options, prefixed)) }
  }

  return {
    get plugins() {
      return [...byName.values()].map(({ plugin }) => plugin)
    },
    installDirs: host.installDirs ?? [],
    add,
    load: (name, fromDir, askedBy) => load(name, { fromDir, askedBy }),

    async reward(reference, ctx, use = {}) {
      const { name, definition, value } = await resolvePart("reward", reference, { fromDir: ctx.projectDir, askedBy: use.askedBy })
      if (definition === undefined) {
        if (typeof value !== "function" && !isReward(value)) throw wrongKind("reward", name, value)
        await validateOptions(name, undefined, use.options)
        return { name, reward: toReward(value as RewardLike), needs: [], range: undefined, deterministic: false }
      }
      const options = await validateOptions(name, definition.options, use.options)
      const made = await runSetup(name, ctx, (prefixed) => definition.setup(options, prefixed))
      if (typeof made !== "function" && !isReward(made)) throw wrongSetup(name, "a function, or an object with score or scoreGroup", made)
      const needs = typeof definition.needs === "function" ? definition.needs(options) : (definition.needs ?? [])
      const { range, deterministic = false } = definition
      return { name, reward: withRange(toReward(made), range), needs, range, deterministic }
    },

    async environment(reference, ctx, use = {}) {
      const { name, made } = await setUp("environment", reference, ctx, use)
      if (typeof made === "function")
        throw new CohortError("plugin_invalid", `${name} brings no prompts, only what episodes run in`, { hint: "Name it in environment.use or in environments, and a file of prompts in data.source." })
      if (!isTaskSet(made)) throw wrongSetup(name, "{ train, heldOut } with name, size and at(index) each", made)
      return made
    },

    async environmentFactory(reference, ctx, use = {}) {
      const { name, definition, value } = await resolvePart("environment", reference, { fromDir: ctx.projectDir, askedBy: use.askedBy })
      if (definition === undefined) {
        if (typeof value !== "function") throw wrongKind("environment", name, value)
        await validateOptions(name, undefined, use.options)
        // What it makes is the protocol's, as its author says: each rollout that finds otherwise fails by name.
        return value as EnvironmentFactory
      }
      const { made } = await setUp("environment", reference, ctx, use)
      if (typeof made === "function") return made as EnvironmentFactory
      if (!isTaskSet(made)) throw wrongSetup(name, "a function that makes an environment, or { train, heldOut, environment }", made)
      if (made.environment === undefined)
        throw new CohortError("plugin_invalid", `${name} brings prompts, and no environment for those of others`, { hint: "Name it in data.source." })
      return made.environment
    },

    async tools(reference, ctx, use = {}) {
      const { name, definition, value } = await resolvePart("tools", reference, { fromDir: ctx.projectDir, askedBy: use.askedBy })
      if (definition === undefined) {
        const tools = isTool(value) ? { [name]: value } : value
        if (!isToolSet(tools)) throw wrongKind("tools", name, value, toolSetProblems(tools))
        await validateOptions(name, undefined, use.options)
        return { name, tools }
      }
      const options = await validateOptions(name, definition.options, use.options)
      const made = await runSetup(name, ctx, (prefixed) => definition.setup(options, prefixed))
      if (!isToolSet(made)) throw wrongSetup(name, `an object of name to { description, run }: ${toolSetProblems(made).join("; ")}`, made)
      return { name, tools: made }
    },

    async tracker(reference, ctx, use = {}) {
      const { name, made } = await setUp("tracker", reference, ctx, use)
      if (!isTracker(made)) throw wrongSetup(name, "{ log, close }", made)
      return made
    },
  }
}

async function runSetup<Made>(name: string, ctx: SetupContext, setup: (ctx: SetupContext) => Made | Promise<Made>): Promise<Made> {
  const stop = () => new CohortError("aborted", `the setup of ${name} was stopped: ${messageOf(ctx.signal.reason)}`, { cause: ctx.signal.reason })
  if (ctx.signal.aborted) throw stop()
  const stopped = Promise.withResolvers<never>()
  const onAbort = () => stopped.reject(stop())
  ctx.signal.addEventListener("abort", onAbort, { once: true })
  try {
    return await Promise.race([setup({ ...ctx, log: (message) => ctx.log(`[${name}] ${message}`) }), stopped.promise])
  } catch (cause) {
    if (isCohortError(cause)) throw cause
    throw new CohortError("plugin_invalid", `the setup of ${name} failed: ${messageOf(cause)}`, { cause })
  } finally {
    ctx.signal.removeEventListener("abort", onAbort)
  }
}

function asPlugin(kind: PartKind, definition: Parts[PartKind]): unknown {
  return { name: "inline", version: "0", apiVersion: brandOf(definition)?.apiVersion, [kind === "tools" ? "tools" : `${kind}s`]: { inline: definition }, [Symbol.for("cohort.plugin")]: { kind: "plugin", apiVersion: 1 } }
}

function nameOfPath(reference: string): string {
  const hash = reference.lastIndexOf("#")
  if (hash !== -1) return reference.slice(hash + 1)
  return reference.slice(reference.lastIndexOf("/") + 1).replace(/\.[cm]?[jt]s$/, "")
}

function nameOfValue(kind: PartKind, value: unknown): string {
  return typeof value === "function" && value.name !== "" ? value.name : `inline-${kind}`
}

function wrongKind(kind: PartKind, name: string, value: unknown, problems: readonly string[] = []): CohortError {
  const made = brandOf(value)?.kind
  const named = { plugin: "a plugin", reward: "a reward", environment: "an environment", tools: "a set of tools", tracker: "a tracker" } as const
  const wanted = named[kind]
  return new CohortError("plugin_invalid", `${name} is ${made === undefined ? describeValue(value) : named[made]}, not ${wanted}${problems.length === 0 ? "" : ` (${problems.join("; ")})`}`, { hint: `Make it with define${kind[0]!.toUpperCase()}${kind.slice(1)}.` })
}

function wrongSetup(name: string, expected: string, made: unknown): CohortError {
  return new CohortError("plugin_invalid", `the setup of ${name} returned ${describeValue(made)}; expected ${expected}`)
}
