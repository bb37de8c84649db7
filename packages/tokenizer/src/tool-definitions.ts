// Tools in the JSON form that chat templates show to the model.
import { type Json, toolParameters, type ToolSet } from "@cohort/env"

/**
 * Definitions of `tools`, in their order.
 *
 * @example toolDefinitions({ add: { description: "Adds.", run: () => 0 } })[0] // { type: "function", function: { name: "add", ... } }
 */
export function toolDefinitions(tools: ToolSet): readonly Json[] {
  return Object.entries(tools).map(([name, tool]) => ({
    type: "function",
    function: { name, description: tool.description, parameters: toolParameters(tool) },
  }))
}
