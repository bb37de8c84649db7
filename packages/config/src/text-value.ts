// Text of a flag or an environment variable, read as the type its setting has.
import { isInteger } from "./describe.ts"
import { type SchemaNode, unionOptions } from "./tree.ts"

/** The value, or undefined when the text is none of that type. */
export interface TextValue {
  readonly value: unknown
}

const INTEGER = /^-?\d+$/
const DECIMAL = /^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/

function json(text: string): TextValue | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return { value }
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/**
 * Reads text as what `schema` takes. Numbers are decimal (`1e-5` too, but not where only whole numbers pass; no `0x10`, no `1_000`);
 * booleans are `true` or `false`; lists are JSON or separated by commas; tables are JSON. Bounds are checked later.
 *
 * @example
 * readText(schemaOfLearningRate, "1e-5") // { value: 0.00001 }
 */
export function readText(schema: SchemaNode, text: string): TextValue | undefined {
  switch (schema.type) {
    case "number":
      return (isInteger(schema) ? INTEGER : DECIMAL).test(text) ? { value: Number(text) } : undefined
    case "boolean":
      return text === "true" || text === "false" ? { value: text === "true" } : undefined
    case "literal":
      return text === schema.literal ? { value: text } : undefined
    case "union": {
      for (const option of unionOptions(schema)) {
        const read = readText(option, text)
        if (read !== undefined) return read
      }
      return undefined
    }
    case "array": {
      const trimmed = text.trim()
      if (trimmed === "") return { value: [] }
      if (trimmed.startsWith("[")) return json(trimmed)
      if (trimmed.startsWith("{")) return undefined // commas would cut the table apart
      const items = trimmed.split(",").map((part) => (schema.item === undefined ? undefined : readText(schema.item, part.trim())))
      return items.every((item) => item !== undefined) ? { value: items.map((item) => item.value) } : undefined
    }
    case "record":
    case "strict_object":
      return text.trim().startsWith("{") ? json(text) : undefined
    default:
      return { value: text }
  }
}

/** Text inside a free-form table: JSON where it is JSON, else the text itself. */
export function readFreeText(text: string): unknown {
  const read = /^[-\d[{"]|^(true|false|null)$/.test(text) ? json(text) : undefined
  return read === undefined ? text : read.value
}
