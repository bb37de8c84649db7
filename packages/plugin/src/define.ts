// What a plugin is: plain objects, marked by the define functions, which also infer the options from their schema.
// Importing a plugin has no effect; the host calls `setup` when a run asks for one of its parts.
import type { Awaitable, EnvironmentFactory, RewardLike, TaskSet, ToolSet } from "@cohort/env"
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { type Branded, withBrand } from "./brand.ts"

/** What `setup` may use instead of globals. */
export interface SetupContext {
  /** Aborts when the run stops; setup must end soon after. */
  readonly signal: AbortSignal
  /** A line for the run's log; the host adds the plugin's name. */
  readonly log: (message: string) => void
  /** Uniform in [0, 1), seeded by the run. */
  readonly random: () => number
  /** Folder of the config file; relative paths in options start here. */
  readonly projectDir: string
  /** The run that this is for; absent where a plugin is only looked at. */
  readonly run?: { readonly id: string; readonly dir: string }
}

/** Dataset columns that a reward reads, or a function of the options that names them. */
// The method form lets a definition with narrow options stand in a record of definitions.
export type Needs<Options> = readonly string[] | { of(options: Options): readonly string[] }["of"]

interface Definition<Options> extends Branded {
  /** One sentence for lists and generated docs. */
  readonly summary: string
  /** Any Standard Schema; refuse unknown keys in it. Absent: takes no options. */
  readonly options?: StandardSchemaV1<unknown, Options>
}

export interface RewardDefinition<Options = unknown> extends Definition<Options> {
  readonly needs?: Needs<Options>
  /** Lowest and highest value; a score outside is a failed reward. */
  readonly range?: readonly [lowest: number, highest: number]
  /** The same rollout always gets the same result. */
  readonly deterministic?: boolean
  setup(options: Options, ctx: SetupContext): Awaitable<RewardLike>
}

export interface EnvironmentDefinition<Options = unknown> extends Definition<Options> {
  /** A task set, or only what makes an environment per episode, for prompts that come from elsewhere. */
  setup(options: Options, ctx: SetupContext): Awaitable<TaskSet | EnvironmentFactory>
}

export interface ToolsDefinition<Options = unknown> extends Definition<Options> {
  setup(options: Options, ctx: SetupContext): Awaitable<ToolSet>
}

export interface Tracker {
  /** Called once per optimizer step with that step's metrics. */
  log(step: number, metrics: Readonly<Record<string, number>>): Awaitable<void>
  /** Flushes; called once, at the end of the run. */
  close(): Awaitable<void>
}

export interface TrackerDefinition<Options = unknown> extends Definition<Options> {
  setup(options: Options, ctx: SetupContext): Awaitable<Tracker>
}

export interface Plugin extends Branded {
  /** Namespace of everything below, as references write it: `name` or `name/part`. */
  readonly name: string
  readonly version: string
  /** Version of this contract that the plugin was written for. */
  readonly apiVersion: number
  readonly rewards?: Readonly<Record<string, RewardDefinition>>
  readonly environments?: Readonly<Record<string, EnvironmentDefinition>>
  readonly tools?: Readonly<Record<string, ToolsDefinition>>
  readonly trackers?: Readonly<Record<string, TrackerDefinition>>
}

/**
 * Marks a plugin; make it the default export of the package.
 *
 * @example export default definePlugin({ name: "short", version: "1.0.0", apiVersion: 1, rewards: { short } })
 */
export function definePlugin(plugin: Plugin): Plugin {
  return withBrand(plugin, "plugin")
}

/**
 * Marks a reward; `setup` gets the validated options, typed by the schema.
 *
 * @example
 * const short = defineReward({
 *   summary: "1 when the completion has at most `limit` characters",
 *   options: v.strictObject({ limit: v.optional(v.number(), 100) }),
 *   range: [0, 1],
 *   deterministic: true,
 *   setup: ({ limit }) => (rollout) => (rollout.text.length <= limit ? 1 : 0),
 * })
 */
export function defineReward<Options = Record<never, never>>(definition: RewardDefinition<Options>): RewardDefinition<Options> {
  return withBrand(definition, "reward")
}

/**
 * Marks a task set: prompts made by code, and the environment their episodes run in, if any; or an environment alone.
 *
 * @example defineEnvironment({ summary: "Sums", options: schema, setup: ({ digits }) => ({ train, heldOut }) })
 * @example defineEnvironment({ summary: "A door", setup: () => () => new Door() })
 */
export function defineEnvironment<Options = Record<never, never>>(definition: EnvironmentDefinition<Options>): EnvironmentDefinition<Options> {
  return withBrand(definition, "environment")
}

/**
 * Marks a set of tools that need no environment: every episode of a run that names it may call them.
 *
 * @example
 * defineTools({
 *   summary: "A clock",
 *   setup: () => ({ now: { description: "The time, as ISO 8601.", run: () => new Date().toISOString() } }),
 * })
 */
export function defineTools<Options = Record<never, never>>(definition: ToolsDefinition<Options>): ToolsDefinition<Options> {
  return withBrand(definition, "tools")
}

/**
 * Marks a tracker: a place where metrics go.
 *
 * @example defineTracker({ summary: "Prints", setup: (_, ctx) => ({ log: (step) => ctx.log(`step ${step}`), close: () => {} }) })
 */
export function defineTracker<Options = Record<never, never>>(definition: TrackerDefinition<Options>): TrackerDefinition<Options> {
  return withBrand(definition, "tracker")
}
