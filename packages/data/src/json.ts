// A JSON document that is one array of rows.
import { CohortError, messageOf } from "@cohort/errors"
import { parseExactJson } from "./exact-json.ts"
import type { RawRow } from "./raw-row.ts"

/**
 * Rows of a JSON document.
 *
 * @param name of the file, for messages
 * @throws CohortError `dataset_invalid`
 */
export function readJson(bytes: Uint8Array, name: string): RawRow[] {
  const value = parse(bytes, name)
  if (!Array.isArray(value)) {
    const found = typeof value === "object" && value !== null ? `an object with ${Object.keys(value).slice(0, 5).join(", ") || "no keys"}` : `${typeof value}`
    throw new CohortError("dataset_invalid", `${name}: expected an array of rows, found ${found}`, {
      hint: "Write the rows as one JSON array, or one object a line in a .jsonl file.",
    })
  }
  return value.map((row: unknown, i) => ({ value: row, where: `${name} row ${i + 1}` }))
}

function parse(bytes: Uint8Array, name: string): unknown {
  try {
    return parseExactJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes))
  } catch (cause) {
    throw new CohortError("dataset_invalid", `${name}: ${messageOf(cause)}`, { hint: "The file must be one JSON document in UTF-8.", cause })
  }
}
