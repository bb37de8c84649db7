// Methods of an object as tools: an environment keeps its state in fields and offers what changes it, without writing each tool twice.
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { CohortError } from "@cohort/errors"
import type { EpisodeContext, Tool, ToolSet } from "./environment.ts"
import type { Awaitable, Json, JsonObject } from "./json.ts"

/** How a method appears to the model. Its one parameter is the object of arguments. */
export interface MethodTool<Input = JsonObject> {
  readonly description: string
  /** Checks the arguments; its output is what the method gets. */
  readonly input?: StandardSchemaV1<unknown, Input>
  /** JSON Schema of the arguments; may be left out where `input` can tell it. */
  readonly parameters?: JsonObject
  /** Time one call may take, ms; without it the run's. */
  readonly timeoutMs?: number
}

type MethodTools = Readonly<Record<string, MethodTool<unknown>>>
type InputOf<Method> = Method extends { readonly input: StandardSchemaV1<unknown, infer Input> } ? Input : JsonObject

/** An object with the methods that are listed, each taking what its schema gives. */
export type WithMethods<Methods extends MethodTools> = {
  readonly [Name in keyof Methods]: (input: InputOf<Methods[Name]>, ctx: EpisodeContext) => Awaitable<Json | void>
}

/** What the run itself calls on an environment. */
const reserved: ReadonlySet<string> = new Set(["reset", "respond", "score", "close"])

/**
 * A tool per listed method, called on the instance. Methods that are not listed stay the environment's own.
 *
 * @throws CohortError `plugin_invalid` for a name that is no method, or that the run itself calls (`reset`, `respond`, `score`, `close`)
 * @example
 * class Door implements Environment {
 *   #open = false
 *   readonly tools = methodsAsTools(this, { turn: { description: "Turns the key.", input: v.object({ times: v.number() }) } })
 *   reset() {}
 *   turn({ times }: { times: number }) { this.#open = times === 3; return this.#open ? "It opens." : "Nothing." }
 *   score() { return this.#open ? 1 : 0 }
 * }
 */
export function methodsAsTools<const Methods extends MethodTools>(instance: WithMethods<Methods>, methods: Methods): ToolSet {
  const tools: Record<string, Tool> = {}
  for (const [name, shown] of Object.entries(methods)) {
    const method: unknown = instance[name]
    if (typeof method !== "function" || reserved.has(name))
      throw new CohortError("plugin_invalid", `${JSON.stringify(name)} cannot be a tool: ${reserved.has(name) ? "the run itself calls it" : "it is no method of the object"}`, {
        hint: "List public methods of the environment other than reset, respond, score and close.",
      })
    // By the types above the method takes what its schema gives.
    const { input, ...rest } = shown as MethodTool
    tools[name] = { ...rest, ...(input === undefined ? {} : { input }), run: async (args, ctx) => ((await instance[name]!(args as never, ctx)) as Json | undefined) ?? null }
  }
  return tools
}
