// The header of a safetensors file, parsed with every number checked before it is used. Nothing is allocated by a size that
// the file only claims. Rules are those of the reference reader 0.8, and a name that stands twice is refused as well.
import { CohortError } from "@cohort/errors"
import { byteLengthOf, isDtype, supportedDtypes, type Dtype } from "./dtype.ts"
import { repeatedKey } from "./json-keys.ts"

/** Longest header that the reference reader accepts, bytes. */
export const maxHeaderBytes = 100_000_000

/** Where one tensor lies. `start` and `end` count from the first byte of the file. */
export interface TensorEntry {
  readonly dtype: Dtype
  readonly shape: readonly number[]
  readonly start: number
  readonly end: number
}

export interface Header {
  readonly metadata: Readonly<Record<string, string>>
  /** In file order. */
  readonly tensors: ReadonlyMap<string, TensorEntry>
}

const hint = "The file is damaged or no safetensors file: fetch or write it again."

/**
 * Parses and checks the header of a file that is wholly in `bytes` (a mapping will do).
 *
 * @param path only for messages
 * @throws CohortError `file_invalid`, naming the file, the tensor and the numbers
 */
export function parseHeader(bytes: Uint8Array, path: string): Header {
  const { text, dataStart } = headerText(bytes, path)
  const parsed = parseObject(text, path)
  const repeated = repeatedKey(text)
  if (repeated !== undefined) fail(path, `tensor "${repeated}" stands twice in the header`)

  const entries: (readonly [string, TensorEntry])[] = []
  let metadata: Readonly<Record<string, string>> = {}
  for (const [name, value] of Object.entries(parsed)) {
    if (name === "__metadata__") metadata = parseMetadata(value, path)
    else entries.push([name, parseEntry(name, value, dataStart, path)])
  }
  entries.sort(([, a], [, b]) => a.start - b.start || a.end - b.end)
  checkCoverage(entries, dataStart, bytes.length, path)
  return { metadata, tensors: new Map(entries) }
}

function headerText(bytes: Uint8Array, path: string): { text: string; dataStart: number } {
  if (bytes.length < 8) fail(path, `header too small: the file has ${bytes.length} bytes, the header length alone takes 8`)
  const claimed = new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true)
  if (claimed > BigInt(maxHeaderBytes)) fail(path, `header too large: ${claimed} bytes claimed, at most ${maxHeaderBytes} allowed`)
  const length = Number(claimed)
  if (length > bytes.length - 8) {
    fail(path, `invalid header length: ${length} bytes claimed, ${bytes.length - 8} follow; the file is cut off or no safetensors file`)
  }
  const dataStart = 8 + length
  const text = decodeUtf8(bytes.subarray(8, dataStart), path)
  if (!text.startsWith("{")) fail(path, `header must start with "{", found ${JSON.stringify(text.slice(0, 1))}`)
  return { text, dataStart }
}

function decodeUtf8(bytes: Uint8Array, path: string): string {
  try {
    // A byte order mark must stay visible, so that it is refused as the reference reader does.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw new CohortError("file_invalid", `${path}: header is not UTF-8`, { hint, cause, details: { path } })
  }
}

function parseObject(text: string, path: string): Record<string, unknown> {
  try {
    // The text starts with "{", so what parses is an object.
    return JSON.parse(text) as Record<string, unknown>
  } catch (cause) {
    throw new CohortError("file_invalid", `${path}: header is not JSON`, { hint, cause, details: { path } })
  }
}

function parseMetadata(value: unknown, path: string): Readonly<Record<string, string>> {
  if (!isObject(value)) fail(path, `__metadata__ must be an object of strings, found ${show(value)}`)
  for (const [key, item] of Object.entries(value)) {
    if (typeof item !== "string") fail(path, `__metadata__.${key} must be a string, found ${show(item)}`)
  }
  return value as Readonly<Record<string, string>>
}

function parseEntry(name: string, value: unknown, dataStart: number, path: string): TensorEntry {
  const where = `tensor "${name}"`
  if (!isObject(value)) fail(path, `${where}: expected an object, found ${show(value)}`)
  const { dtype, shape, data_offsets: offsets } = value
  if (!isDtype(dtype)) fail(path, `${where}: dtype ${show(dtype)} is not one of ${supportedDtypes.join(", ")}`)
  if (!isCountList(shape)) fail(path, `${where}: shape ${show(shape)} is no list of whole numbers`)
  if (!isCountList(offsets) || offsets.length !== 2) fail(path, `${where}: data_offsets ${show(offsets)} is no pair of whole numbers`)
  const [begin = 0, end = 0] = offsets
  if (end < begin) fail(path, `${where}: data_offsets [${begin}, ${end}] run backwards`)
  const bytes = byteLengthOf(dtype, shape)
  if (bytes === undefined) fail(path, `${where}: shape [${shape.join(", ")}] of ${dtype} is no whole, addressable number of bytes`)
  if (bytes !== end - begin) {
    fail(path, `${where}: shape [${shape.join(", ")}] of ${dtype} needs ${bytes} bytes, data_offsets [${begin}, ${end}] hold ${end - begin}`)
  }
  return { dtype, shape, start: dataStart + begin, end: dataStart + end }
}

// Tensors must tile the rest of the file: no overlap, no hole, nothing after the last one.
function checkCoverage(entries: readonly (readonly [string, TensorEntry])[], dataStart: number, fileBytes: number, path: string): void {
  let expected = dataStart
  for (const [name, { start, end }] of entries) {
    if (start !== expected) {
      const what = start < expected ? "overlaps the tensor before it" : "leaves a hole before it"
      fail(path, `tensor "${name}": begins at ${start - dataStart}, expected ${expected - dataStart}: it ${what}`)
    }
    if (end > fileBytes) {
      fail(path, `tensor "${name}": ends at byte ${end}, the file has ${fileBytes}; the file is cut off`)
    }
    expected = end
  }
  if (expected !== fileBytes) fail(path, `${fileBytes - expected} bytes follow the last tensor, which ends at byte ${expected}`)
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

function isCountList(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0)
}

function show(value: unknown): string {
  return (JSON.stringify(value) ?? "nothing").slice(0, 80)
}

function fail(path: string, message: string): never {
  throw new CohortError("file_invalid", `${path}: ${message}`, { hint, details: { path } })
}
