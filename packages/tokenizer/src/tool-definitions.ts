// Tools in the JSON form that chat templates show to the model.
import type { Json, JsonObject, ToolSet } from "@cohort/env"

const noParameters: JsonObject = { type: "object", properties: {} }

/**
 * Definitions of `tools`, in their order.
 *
 * @example toolDefinitions({ add: { description: "Adds.", run: () => 0 } })[0] // { type: "function", function: { name: "add", ... } }
 */
export function toolDefinitions(tools: ToolSet): readonly Json[] {
  return Object.entries(tools).map(([name, { description, parameters }]) => ({
    type: "function",
    function: { name, description, parameters: parameters ?? noParameters },
  }))
}
