// What every tool is good for, wherever it runs: the parameters it shows to the model, and a call with its arguments checked.
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { EpisodeContext, Tool } from "./environment.ts"
import type { Awaitable, Json, JsonObject } from "./json.ts"

/**
 * Types `run` by the schema beside it; returns its argument.
 *
 * @example tool({ description: "Doubles x.", input: v.object({ x: v.number() }), run: ({ x }) => 2 * x })
 */
export function tool<Input = JsonObject>(definition: Tool<Input>): Tool<Input> {
  return definition
}

const anyObject: JsonObject = { type: "object", properties: {} }

/**
 * JSON Schema of a tool's arguments: its `parameters`, else what `input` says of itself (Standard JSON Schema: zod, arktype, valibot's
 * `toStandardJsonSchema`), else any object.
 *
 * @example toolParameters({ description: "Now.", run: () => 0 }) // { type: "object", properties: {} }
 */
export function toolParameters(of: Pick<Tool<unknown>, "parameters" | "input">): JsonObject {
  return of.parameters ?? derivedParameters(of.input) ?? anyObject
}

/**
 * Calls a tool with the arguments that the model wrote. A sync tool answers at once. The caller bounds it.
 *
 * @throws Error naming the argument for what does not fit `input`; what the tool throws
 * @example await callTool(add, { a: 1, b: 2 }, ctx) // 3
 */
export function callTool(called: Tool<unknown>, args: JsonObject, ctx: EpisodeContext): Awaitable<Json> {
  const checked = called.input === undefined ? { value: args } : called.input["~standard"].validate(args)
  if (checked instanceof Promise) return checked.then((later) => called.run(inputOf(later), ctx))
  return called.run(inputOf(checked), ctx)
}

function inputOf(checked: StandardSchemaV1.Result<unknown>): unknown {
  if (checked.issues !== undefined) throw new Error(checked.issues.map((issue) => issueText(issue)).join("; "))
  return checked.value
}

/** `draft-07` is the target that every converter has. */
function derivedParameters(schema: unknown): JsonObject | undefined {
  const standard = (schema as { readonly "~standard"?: { readonly jsonSchema?: { readonly input?: unknown } } } | undefined)?.["~standard"]
  const convert = standard?.jsonSchema?.input
  if (typeof convert !== "function") return undefined
  const { $schema: _, ...parameters } = (convert as (options: { readonly target: string }) => Record<string, Json>)({ target: "draft-07" })
  return parameters
}

function issueText(issue: { readonly message: string; readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined }): string {
  const path = (issue.path ?? []).map((part) => String(typeof part === "object" ? part.key : part)).join(".")
  return path === "" ? issue.message : `${path}: ${issue.message}`
}
