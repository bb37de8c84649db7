// Turns raw rows into prompt rows, all at load: what is wrong is said with the row, the columns that are there and the fix.
import { CohortError } from "@cohort/errors"
import type { Json, Message, PromptRow } from "@cohort/env"
import { readMessages } from "./messages.ts"
import type { RawRow } from "./raw-row.ts"

export interface ColumnOptions {
  /** Column with the prompt, text or messages. Default `prompt`. */
  readonly promptColumn?: string
  /**
   * Column that identifies a row. Default `id` when the first row has it, else the row's number from 0. Null numbers the
   * rows even where there is an `id`.
   */
  readonly idColumn?: string | null
  /** A row without prompt is one without messages: an environment supplies them. Holds for a column of the default name only, others are meant. */
  readonly promptOptional?: boolean
}

type Fields = Readonly<Record<string, Json>>

// Names that other people give to the prompt, most telling first.
const promptNames = ["prompt", "question", "problem", "instruction", "messages", "input", "query", "conversations", "text"]

/**
 * A checker that takes the rows of one dataset in order. Other columns pass unchanged; a column that `id` or `prompt` of the
 * row replaces is kept under `original_id` or `original_prompt`.
 *
 * @throws CohortError `dataset_invalid`
 * @example const toRow = promptRows({ promptColumn: "question" }); toRow({ value: { question: "2+2" }, where: "row 1" })
 */
export function promptRows(options: ColumnOptions = {}): (raw: RawRow) => PromptRow {
  const promptColumn = options.promptColumn ?? "prompt"
  const whereById = new Map<string, string>()
  let idColumn = options.idColumn
  let count = 0

  return ({ value, where }) => {
    const fields = readFields(value, where)
    if (count === 0 && idColumn === undefined) idColumn = Object.hasOwn(fields, "id") ? "id" : null
    const prompt = options.promptOptional === true && promptColumn === "prompt" && isAbsent(fields["prompt"]) ? [] : readPrompt(fields, promptColumn, where)
    const id = typeof idColumn === "string" ? readId(fields, idColumn, where, options.idColumn === undefined) : String(count)
    const other = whereById.get(id)
    if (other !== undefined) {
      refuse(where, `id ${JSON.stringify(id)} is also the id of ${other}`, "Ids must differ: name another idColumn, or null to number the rows.")
    }
    whereById.set(id, where)
    count++
    const { environment } = fields
    if (environment !== undefined && environment !== null && typeof environment !== "string") {
      refuse(where, `column environment must name an environment, found ${show(environment)}`, "Rename the column, or give a name.")
    }
    const { environment: _, ...rest } = fields
    return {
      ...(typeof environment === "string" ? fields : rest),
      ...kept(fields, "prompt", promptColumn, where),
      ...kept(fields, "id", idColumn ?? undefined, where),
      id,
      prompt,
    }
  }
}

function readFields(value: unknown, where: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const found = Array.isArray(value) ? "an array" : show(value)
    refuse(where, `expected an object with columns, found ${found}`, 'Each row must be an object such as { "prompt": "..." }.')
  }
  if (Object.hasOwn(value, "__proto__")) refuse(where, "a column cannot be named __proto__", "Rename the column.")
  // Rows come from JSON readers, so the values inside are JSON.
  return value as Fields
}

function isAbsent(prompt: Json | undefined): boolean {
  return prompt === undefined || prompt === null || prompt === ""
}

function readPrompt(fields: Fields, column: string, where: string): string | readonly Message[] {
  const prompt = Object.hasOwn(fields, column) ? fields[column] : undefined
  if (prompt === undefined) {
    const found = Object.keys(fields)
    const near = promptNames.find((name) => found.includes(name)) ?? found[0]
    refuse(
      where,
      `column ${column} missing; found: ${found.join(", ") || "no columns"}`,
      near === undefined ? "Give the row a prompt." : `Name the column that holds the prompt, as promptColumn: "${near}".`,
    )
  }
  if (typeof prompt === "string") {
    if (prompt === "") refuse(where, `column ${column} is empty`, "Remove the row, or give it a prompt.")
    return prompt
  }
  if (Array.isArray(prompt)) return readMessages(prompt as readonly unknown[], where)
  refuse(where, `column ${column} must be text or a list of messages, found ${show(prompt)}`, "Name another promptColumn, or mend the row.")
}

function readId(fields: Fields, column: string, where: string, byDefault: boolean): string {
  const id = Object.hasOwn(fields, column) ? fields[column] : undefined
  if (typeof id === "string" && id !== "") return id
  if (typeof id === "number" && Number.isInteger(id)) return String(id)
  const what = id === undefined ? `column ${column} missing; found: ${Object.keys(fields).join(", ")}` : `column ${column} must be text or a whole number, found ${show(id)}`
  refuse(where, what, byDefault ? "The first row has an id, so all must; idColumn: null numbers the rows instead." : "Name another idColumn, or mend the row.")
}

// A column of the row's own field names that the prompt or the id of another column replaces.
function kept(fields: Fields, field: "id" | "prompt", source: string | undefined, where: string): Fields {
  const value = fields[field]
  if (value === undefined || source === field) return {}
  const name = `original_${field}`
  if (Object.hasOwn(fields, name)) refuse(where, `has both ${field} and ${name}`, `Rename the column ${field}.`)
  return { [name]: value }
}

function show(value: unknown): string {
  return (JSON.stringify(value) ?? "nothing").slice(0, 80)
}

function refuse(where: string, message: string, hint: string): never {
  throw new CohortError("dataset_invalid", `${where}: ${message}`, { hint, details: { where } })
}
