// Values of parquet files and of callers, made JSON, so that rows pass to workers, logs and templates.
import { CohortError } from "@cohort/errors"
import type { Json } from "@cohort/env"

/**
 * `value` as JSON. A bigint becomes a number where a double holds it and else the text of its digits, a date its ISO text,
 * NaN (a missing value in most tools) and undefined null.
 *
 * @throws CohortError `dataset_invalid` for bytes, infinities and what else has no JSON form
 */
export function toJson(value: unknown, where: string): Json {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value
    case "undefined":
      return null
    case "bigint":
      return Number.isSafeInteger(Number(value)) ? Number(value) : value.toString()
    case "number":
      if (Number.isFinite(value)) return value
      if (Number.isNaN(value)) return null
      return refuse(where, `${value}`)
    case "object":
      return value === null ? null : objectToJson(value, where)
    default:
      return refuse(where, `a ${typeof value}`)
  }
}

function objectToJson(value: object, where: string): Json {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString()
  if (value instanceof Uint8Array || value instanceof ArrayBuffer) return refuse(where, "bytes")
  if (ArrayBuffer.isView(value)) return Array.from(value as unknown as Iterable<unknown>, (item, i) => toJson(item, `${where}[${i}]`))
  if (Array.isArray(value)) return value.map((item: unknown, i) => toJson(item, `${where}[${i}]`))
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toJson(item, `${where}.${key}`)]))
}

function refuse(where: string, found: string): never {
  throw new CohortError("dataset_invalid", `${where}: ${found} has no JSON form`, {
    hint: "Leave the column out with `columns`, or store it as text.",
  })
}
