// A reader of zip archives that unpacks single entries as a stream: a wheel of 270 MB holds one library of 790 MB, and
// neither may pass through memory whole. Layout: PKWARE APPNOTE 6.3.10, sections 4.3.7, 4.3.12, 4.3.14 to 4.3.16, 4.5.3.
import { CohortError, toCohortError } from "@cohort/errors"
import { createReadStream } from "node:fs"
import { open, type FileHandle } from "node:fs/promises"
import { crc32, createInflateRaw } from "node:zlib"

export interface ZipEntry {
  readonly name: string
  /** 0 stored, 8 deflate. */
  readonly method: number
  readonly encrypted: boolean
  readonly crc32: number
  readonly compressedBytes: number
  readonly bytes: number
  /** Position of the entry's local header in the archive. */
  readonly offset: number
}

const endSignature = 0x06054b50
const end64LocatorSignature = 0x07064b50
const end64Signature = 0x06064b50
const centralSignature = 0x02014b50
const localSignature = 0x04034b50
const max32 = 0xffffffff
const streamChunkBytes = 1 << 20

/**
 * Reads the table of contents of a zip archive (zip64 too), keyed by path.
 *
 * @throws CohortError `file_invalid` when the file is not a zip archive or is cut short.
 * @example
 * const entry = (await readZipEntries("a.whl")).get("tensorflow/libtensorflow_cc.so.2")
 */
export async function readZipEntries(path: string): Promise<ReadonlyMap<string, ZipEntry>> {
  const file = await open(path, "r")
  try {
    const { offset, bytes, count } = await centralDirectory(file, path)
    const directory = await readAt(file, path, offset, bytes)
    const entries = new Map<string, ZipEntry>()
    let at = 0
    for (let index = 0; index < count; index++) {
      if (at + 46 > directory.length || directory.readUInt32LE(at) !== centralSignature)
        throw invalid(path, `entry ${index} of ${count} in the table of contents is damaged`)
      const nameBytes = directory.readUInt16LE(at + 28)
      const extraBytes = directory.readUInt16LE(at + 30)
      const commentBytes = directory.readUInt16LE(at + 32)
      const extraAt = at + 46 + nameBytes
      const next = extraAt + extraBytes + commentBytes
      if (next > directory.length) throw invalid(path, `entry ${index} of ${count} in the table of contents is cut short`)
      const name = directory.toString("utf8", at + 46, extraAt)
      const sizes = wideSizes(directory, at, directory.subarray(extraAt, extraAt + extraBytes))
      entries.set(name, {
        name,
        method: directory.readUInt16LE(at + 10),
        encrypted: (directory.readUInt16LE(at + 8) & 1) === 1,
        crc32: directory.readUInt32LE(at + 16),
        ...sizes,
      })
      at = next
    }
    return entries
  } finally {
    await file.close()
  }
}

/**
 * Unpacks one entry to `target` (which must not exist yet), checks length and CRC-32, and flushes it to disk. Memory stays
 * at a few buffers of 1 MiB. A target that could not be finished is left to the caller to remove.
 *
 * @param onBytes told the bytes written so far, after each block
 * @throws CohortError `file_invalid` for a damaged entry, `disk_full` for a full disk, `aborted` by the signal.
 */
export async function extractZipEntry(
  path: string,
  entry: ZipEntry,
  target: string,
  options: { readonly signal?: AbortSignal; readonly onBytes?: (bytes: number) => void } = {},
): Promise<void> {
  if (entry.encrypted) throw invalid(path, `${entry.name} is encrypted`)
  if (entry.method !== 0 && entry.method !== 8) throw invalid(path, `${entry.name} uses compression method ${entry.method}; only 0 and 8 are read`)
  const start = await dataOffset(path, entry)
  const output = await open(target, "wx", 0o644)
  try {
    let written = 0
    let crc = 0
    for await (const block of entryBlocks(path, entry, start)) {
      options.signal?.throwIfAborted()
      if (written + block.length > entry.bytes) throw invalid(path, `${entry.name} unpacks to more than its ${entry.bytes} bytes`)
      crc = crc32(block, crc)
      await output.writeFile(block)
      written += block.length
      options.onBytes?.(written)
    }
    if (written !== entry.bytes) throw invalid(path, `${entry.name} unpacks to ${written} bytes, not ${entry.bytes}`)
    if (crc !== entry.crc32) throw invalid(path, `${entry.name} has CRC-32 ${hex(crc)}, not ${hex(entry.crc32)}`)
    // A rename may reach the disk before the data does; after a power cut the folder would look complete.
    await output.sync()
  } catch (error) {
    throw toCohortError(error, "file_invalid", `${path}: ${entry.name} could not be unpacked`)
  } finally {
    await output.close()
  }
}

async function* entryBlocks(path: string, entry: ZipEntry, start: number): AsyncGenerator<Buffer> {
  if (entry.compressedBytes === 0) return
  const input = createReadStream(path, { start, end: start + entry.compressedBytes - 1, highWaterMark: streamChunkBytes })
  if (entry.method === 0) {
    yield* input
    return
  }
  const inflate = createInflateRaw({ chunkSize: streamChunkBytes })
  // pipe() does not carry errors; without this a read error would leave the reader of `inflate` waiting.
  input.on("error", (error) => inflate.destroy(error))
  try {
    yield* input.pipe(inflate)
  } finally {
    input.destroy()
    inflate.destroy()
  }
}

/** The local header repeats name and extra field with lengths of its own, so the data's place is known only from there. */
async function dataOffset(path: string, entry: ZipEntry): Promise<number> {
  const file = await open(path, "r")
  try {
    const header = await readAt(file, path, entry.offset, 30)
    if (header.readUInt32LE(0) !== localSignature) throw invalid(path, `${entry.name} has no local header at ${entry.offset}`)
    return entry.offset + 30 + header.readUInt16LE(26) + header.readUInt16LE(28)
  } finally {
    await file.close()
  }
}

async function centralDirectory(file: FileHandle, path: string): Promise<{ offset: number; bytes: number; count: number }> {
  const { size } = await file.stat()
  // The end record is 22 bytes and may be followed by a comment of up to 65,535.
  const tailBytes = Math.min(size, 22 + 0xffff)
  const tail = await readAt(file, path, size - tailBytes, tailBytes)
  let at = tail.length - 22
  while (at >= 0 && !(tail.readUInt32LE(at) === endSignature && at + 22 + tail.readUInt16LE(at + 20) === tail.length)) at--
  if (at < 0) throw invalid(path, "it is not a zip archive, or is cut short")
  const count = tail.readUInt16LE(at + 10)
  const bytes = tail.readUInt32LE(at + 12)
  const offset = tail.readUInt32LE(at + 16)
  if (count !== 0xffff && bytes !== max32 && offset !== max32) return { offset, bytes, count }
  if (at < 20 || tail.readUInt32LE(at - 20) !== end64LocatorSignature) return { offset, bytes, count }
  const record = await readAt(file, path, Number(tail.readBigUInt64LE(at - 12)), 56)
  if (record.readUInt32LE(0) !== end64Signature) throw invalid(path, "its zip64 end record is damaged")
  return {
    count: Number(record.readBigUInt64LE(32)),
    bytes: Number(record.readBigUInt64LE(40)),
    offset: Number(record.readBigUInt64LE(48)),
  }
}

/** Sizes and offset of a central entry; those that read 0xffffffff stand as 64-bit values in extra field 1, in this order. */
function wideSizes(directory: Buffer, at: number, extra: Buffer): Pick<ZipEntry, "bytes" | "compressedBytes" | "offset"> {
  const wide = zip64Values(extra)
  const value = (narrow: number) => (narrow === max32 ? (wide.shift() ?? narrow) : narrow)
  const bytes = value(directory.readUInt32LE(at + 24))
  const compressedBytes = value(directory.readUInt32LE(at + 20))
  const offset = value(directory.readUInt32LE(at + 42))
  return { bytes, compressedBytes, offset }
}

function zip64Values(extra: Buffer): number[] {
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2)) {
    if (extra.readUInt16LE(at) !== 1) continue
    const end = Math.min(at + 4 + extra.readUInt16LE(at + 2), extra.length)
    const values: number[] = []
    for (let each = at + 4; each + 8 <= end; each += 8) values.push(Number(extra.readBigUInt64LE(each)))
    return values
  }
  return []
}

async function readAt(file: FileHandle, path: string, position: number, bytes: number): Promise<Buffer> {
  const { size } = await file.stat()
  if (position < 0 || position + bytes > size)
    throw invalid(path, `bytes ${position} to ${position + bytes} are asked for and the file has ${size}`)
  const buffer = Buffer.alloc(bytes)
  const { bytesRead } = await file.read(buffer, 0, bytes, position)
  if (bytesRead !== bytes) throw invalid(path, `${bytesRead} of ${bytes} bytes could be read at ${position}`)
  return buffer
}

function hex(value: number): string {
  return `0x${value.toString(16).padStart(8, "0")}`
}

function invalid(path: string, what: string): CohortError {
  return new CohortError("file_invalid", `${path}: ${what}`, { hint: "Remove the file and download it again." })
}
