// The JSON Schema of a config file, for editors and forms.
import { toJsonSchema } from "@valibot/to-json-schema"
import { isOpenBound } from "./describe.ts"
import { deepFreeze, type DeepReadonly } from "./json.ts"
import { runShape } from "./shape.ts"

export type JsonSchema = DeepReadonly<ReturnType<typeof toJsonSchema>>

function omit(schema: object, names: readonly string[]): object {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => !names.includes(name)))
}

/**
 * JSON Schema (draft 2020-12) of what a config file may hold: types, bounds, defaults, doc lines. Rules between settings are not in it.
 *
 * @example
 * await Bun.write("cohort.schema.json", JSON.stringify(runConfigJsonSchema(), null, 2))
 */
export function runConfigJsonSchema(): JsonSchema {
  const schema = toJsonSchema(runShape, {
    target: "draft-2020-12",
    typeMode: "input",
    // Every JSON number is finite; JSON Schema has no word for it. The type of free-form values is "anything".
    ignoreActions: ["finite"],
    overrideSchema: ({ valibotSchema }) => (valibotSchema.type === "custom" ? {} : undefined),
    overrideAction: ({ valibotAction, jsonSchema }) => {
      // Bounds that only say "exact" or "finite" would be noise in an editor.
      if (valibotAction.type === "safe_integer") return { ...omit(jsonSchema, ["minimum", "maximum"]), type: "integer" }
      if (!("requirement" in valibotAction) || !isOpenBound(valibotAction.requirement)) return undefined
      return omit(jsonSchema, [valibotAction.type === "max_value" ? "maximum" : "minimum"])
    },
  })
  return deepFreeze({
    ...schema,
    title: "Cohort run",
    properties: { $schema: { type: "string" as const, description: "Where this schema lies, for the editor" }, ...schema.properties },
  })
}
