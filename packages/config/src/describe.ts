// A schema in words: what docs print as the type and what an error says was expected.
import { showValue } from "./json.ts"
import { type PipeItem, type SchemaNode, unionOptions, unwrap } from "./tree.ts"

/** Bounds that only say "finite" or "exact". */
export function isOpenBound(requirement: unknown): boolean {
  return requirement === Number.MAX_VALUE || requirement === -Number.MAX_VALUE || requirement === Number.MAX_SAFE_INTEGER
}

function bounds(pipe: readonly PipeItem[]): string {
  const parts: string[] = []
  for (const { type, requirement } of pipe) {
    if (isOpenBound(requirement)) continue
    if (type === "min_value") parts.push(`>= ${String(requirement)}`)
    if (type === "gt_value") parts.push(`> ${String(requirement)}`)
    if (type === "max_value") parts.push(`<= ${String(requirement)}`)
    if (type === "lt_value") parts.push(`< ${String(requirement)}`)
  }
  return parts.length === 0 ? "" : ` ${parts.join(" and ")}`
}

/** True where only whole numbers pass. */
export function isInteger(schema: SchemaNode): boolean {
  return schema.pipe?.some((item) => item.type === "safe_integer") ?? false
}

/**
 * The values a schema takes, in words.
 *
 * @example
 * describeType(int(2, "...")) // "integer >= 2"
 */
export function describeType(schema: SchemaNode): string {
  const inner = unwrap(schema)
  const pipe = inner.pipe ?? []
  switch (inner.type) {
    case "number":
      return `${isInteger(inner) ? "integer" : "number"}${bounds(pipe)}`
    case "string": {
      const pattern = pipe.find((item) => item.type === "regex")
      if (typeof pattern?.message === "string") return pattern.message
      return pipe.some((item) => item.type === "non_empty") ? "text" : "text, may be empty"
    }
    case "boolean":
      return "true or false"
    case "literal":
      return showValue(inner.literal)
    case "picklist":
      return (inner.options ?? []).map((option) => showValue(option)).join(" | ")
    case "array":
      return inner.item === undefined ? "list" : `list of ${describeType(inner.item)}`
    case "record":
      return "table"
    case "strict_object":
      return `{ ${Object.entries(inner.entries ?? {})
        .map(([name, entry]) => (entry.wrapped === undefined ? name : `${name}?`))
        .join(", ")} }`
    case "union":
      return unionOptions(inner).map(describeType).join(" or ")
    default:
      return "JSON value"
  }
}
