// Opens a dataset wherever it is: rows in memory, a file, a folder, or a dataset of the Hugging Face hub.
import { existsSync, readdirSync, statSync } from "node:fs"
import { basename, join } from "node:path"
import { CohortError, toCohortError } from "@cohort/errors"
import type { PromptRow, RowSource } from "@cohort/env"
import { createHubClient, type HubClient, hubSettings, parseHubName } from "@cohort/hub"
import { readJson } from "./json.ts"
import { readJsonl } from "./jsonl.ts"
import { readParquet } from "./parquet.ts"
import { promptRows, type ColumnOptions } from "./prompt-rows.ts"
import type { RawRow } from "./raw-row.ts"
import { selectFiles, type SplitOptions } from "./select-files.ts"
import { arraySource } from "./source.ts"
import { toJson } from "./to-json.ts"

export interface DatasetOptions extends ColumnOptions, SplitOptions {
  /** A .jsonl, .json or .parquet file, a folder of them, or `org/name[@revision]` on the Hugging Face hub. */
  readonly path?: string
  /** Rows in memory, instead of a path. */
  readonly rows?: readonly unknown[]
  readonly name?: string
  /** Columns to keep; all when undefined. The prompt and id columns must be among them. */
  readonly columns?: readonly string[]
  /** Stop after so many rows. */
  readonly limit?: number
  readonly hub?: HubClient
  readonly signal?: AbortSignal
}

const fileName = /\.(jsonl|json|parquet|csv|tsv|txt|arrow|gz|zst)$/

/**
 * Loads and checks a dataset. All rows are held in memory.
 *
 * @throws CohortError `dataset_invalid` naming the file, the row or line (from 1), the column and the fix
 * @example
 * const source = await openDataset({ path: "train.jsonl", promptColumn: "question" })
 */
export async function openDataset(options: DatasetOptions): Promise<RowSource> {
  const { path, rows } = options
  if ((path === undefined) === (rows === undefined)) {
    throw new CohortError("config_invalid", `a dataset needs either path or rows, ${path === undefined ? "neither was" : "both were"} given`)
  }
  const name = options.name ?? path ?? "rows"
  const raw = rows === undefined ? readPath(path ?? "", options) : readMemory(rows)
  const toRow = promptRows(options)
  const limit = options.limit ?? Number.POSITIVE_INFINITY
  const checked: PromptRow[] = []
  for await (const row of raw) {
    if (checked.length >= limit) break
    checked.push(toRow(options.columns === undefined ? row : only(row, options.columns)))
  }
  if (checked.length === 0) throw new CohortError("dataset_invalid", `dataset ${name} has no rows`, { details: { name } })
  return arraySource(name, checked)
}

async function* readPath(path: string, options: DatasetOptions): AsyncGenerator<RawRow> {
  for (const [file, label] of await locate(path, options)) yield* readFile(file, label, options)
}

// Local files to read, each with the name that messages use.
async function locate(path: string, options: DatasetOptions): Promise<readonly (readonly [file: string, label: string])[]> {
  if (existsSync(path)) {
    if (!statSync(path).isDirectory()) return [[path, basename(path)]]
    const found = readdirSync(path, { recursive: true, encoding: "utf8" }).map((file) => file.replaceAll("\\", "/"))
    return selectFiles(found, options, path).map((file) => [join(path, file), file])
  }
  const named = fileName.test(path) ? undefined : parseHubName(path)
  if (named === undefined) {
    throw new CohortError("dataset_invalid", `dataset ${path}: no such file or folder`, { hint: "Give a path that exists, or org/name of the Hugging Face hub." })
  }
  const { hub = createHubClient(hubSettings({})), signal } = options
  const snapshot = await hub.open({ kind: "dataset", ...named }, signal)
  const files = selectFiles(snapshot.files, options, path)
  const folder = await snapshot.load(files, signal === undefined ? {} : { signal })
  return files.map((file) => [join(folder, file), file])
}

async function* readFile(path: string, label: string, { columns, signal }: DatasetOptions): AsyncGenerator<RawRow> {
  const file = Bun.file(path)
  // The label keeps the extension: a cached copy may have none.
  if (label.endsWith(".jsonl")) yield* readJsonl(file.stream(), label, signal)
  else if (label.endsWith(".json")) yield* readJson(await bytesOf(file, label), label)
  else if (label.endsWith(".parquet")) {
    const slices = { byteLength: file.size, slice: (start: number, end?: number) => file.slice(start, end).arrayBuffer() }
    yield* readParquet(slices, label, columns, signal)
  } else {
    throw new CohortError("dataset_invalid", `${label}: unknown kind of file`, { hint: "Supported: .jsonl, .json, .parquet." })
  }
}

async function bytesOf(file: Bun.BunFile, label: string): Promise<Uint8Array> {
  try {
    return await file.bytes()
  } catch (error) {
    throw toCohortError(error, "dataset_invalid", label)
  }
}

async function* readMemory(rows: readonly unknown[]): AsyncGenerator<RawRow> {
  for (const [i, row] of rows.entries()) {
    const where = `row ${i + 1}`
    yield { value: toJson(row, where), where }
  }
}

// A missing column is the checker's to name, with the columns that the row has.
function only(row: RawRow, columns: readonly string[]): RawRow {
  const { value } = row
  if (typeof value !== "object" || value === null || Array.isArray(value)) return row
  if (columns.some((column) => !Object.hasOwn(value, column))) {
    const missing = columns.filter((column) => !Object.hasOwn(value, column))
    throw new CohortError("dataset_invalid", `${row.where}: column ${missing.join(", ")} missing; found: ${Object.keys(value).join(", ")}`)
  }
  return { ...row, value: Object.fromEntries(Object.entries(value).filter(([key]) => columns.includes(key))) }
}
