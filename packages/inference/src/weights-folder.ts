// Looks into a weights folder before a server is told to load it: vLLM answers a bad folder with a worker that dies at the next request.
import { open, readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { CohortError, messageOf } from "@cohort/errors"
import { fieldsOf, parseJson } from "./answer.ts"

/** Names of all tensors in a folder. */
export type ReadWeightNames = (folder: string) => Promise<ReadonlySet<string>>

/** Far above any real header; guards against reading a file that is none. */
const maxHeaderBytes = 100_000_000

/**
 * Tensor names in the `*.safetensors` files of a folder, from their headers only.
 *
 * @throws CohortError `file_invalid` when the folder is missing or has no weights, a shard of the index is missing, a header cannot be
 * read, or a file is shorter than its header says
 */
export const readWeightNames: ReadWeightNames = async (folder) => {
  const files = await filesOf(folder)
  const shards = files.filter((file) => file.endsWith(".safetensors"))
  if (shards.length === 0) throw invalid(folder, "no .safetensors file in it", "Weights folders hold model.safetensors or its shards.")
  const names = new Set<string>()
  for (const shard of shards) for (const name of await namesOfFile(join(folder, shard))) names.add(name)
  if (files.includes("model.safetensors.index.json")) {
    const absent = (await indexedNames(join(folder, "model.safetensors.index.json"))).filter((name) => !names.has(name))
    if (absent.length > 0) throw invalid(folder, `the index lists ${listed(absent)}, which no shard holds`, "Write all shards before the folder is used.")
  }
  return names
}

/**
 * Refuses a name set that differs from the one wanted.
 * @throws CohortError `inference_rejected` with the first five missing and unexpected names and their counts
 */
export function checkNames(found: ReadonlySet<string>, wanted: ReadonlySet<string>, what: string): void {
  const missing = [...wanted].filter((name) => !found.has(name))
  const unexpected = [...found].filter((name) => !wanted.has(name))
  if (missing.length === 0 && unexpected.length === 0) return
  const parts = [
    ...(missing.length > 0 ? [`missing ${listed(missing)}`] : []),
    ...(unexpected.length > 0 ? [`unexpected ${listed(unexpected)}`] : []),
  ]
  throw new CohortError("inference_rejected", `${what}: ${parts.join("; ")}`, {
    hint: "Every version must hold the same tensors under the same names as the model that the server runs.",
    details: { missing: missing.length, unexpected: unexpected.length },
  })
}

/** The first five of some names and how many there are. */
export function listed(names: readonly string[]): string {
  const shown = names.slice(0, 5).join(", ")
  return names.length > 5 ? `${shown} and ${names.length - 5} more` : shown
}

async function filesOf(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    throw invalid(folder, messageOf(error), "The folder must exist before a server is told to load it.", error)
  }
}

async function namesOfFile(path: string): Promise<string[]> {
  const file = await open(path, "r")
  try {
    const { size } = await file.stat()
    const prefix = Buffer.alloc(8)
    const { bytesRead } = await file.read(prefix, 0, 8, 0)
    const length = bytesRead === 8 ? Number(prefix.readBigUInt64LE(0)) : -1
    if (length < 2 || length > maxHeaderBytes || 8 + length > size) throw invalid(path, "not a complete safetensors file", "Write it again.")
    const text = Buffer.alloc(length)
    await file.read(text, 0, length, 8)
    const header = fieldsOf(parseJson(text.toString("utf8")))
    if (header === undefined) throw invalid(path, "its header is no JSON object", "Write it again.")
    const names = Object.keys(header).filter((name) => name !== "__metadata__")
    const end = Math.max(0, ...names.map((name) => lastOffset(header[name])))
    if (8 + length + end > size) throw invalid(path, `its header tells of ${8 + length + end} bytes, the file has ${size}`, "Write it again.")
    return names
  } finally {
    await file.close()
  }
}

function lastOffset(entry: unknown): number {
  const offsets = fieldsOf(entry)?.data_offsets
  const end: unknown = Array.isArray(offsets) ? offsets[1] : undefined
  return typeof end === "number" ? end : 0
}

async function indexedNames(path: string): Promise<string[]> {
  const map = fieldsOf(fieldsOf(parseJson(await readFile(path, "utf8")))?.weight_map)
  if (map === undefined) throw invalid(path, "no weight_map in it", "Write it again.")
  return Object.keys(map)
}

function invalid(path: string, why: string, hint: string, cause?: unknown): CohortError {
  return new CohortError("file_invalid", `${path}: ${why}`, { hint, details: { path }, cause })
}
