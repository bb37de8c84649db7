// Checksums of weight files that go from one process to another: CRC-32, which costs a tenth of the write and is found everywhere (`zlib.crc32` in Python and Node).
import { createReadStream } from "node:fs"
import { crc32 } from "node:zlib"
import { toCohortError } from "@cohort/errors"

export interface Checksum {
  update(bytes: Uint8Array): void
  /** Eight lower-case hex digits. */
  hex(): string
}

/** CRC-32 of bytes that come in parts. */
export function createChecksum(): Checksum {
  let value = 0
  return {
    update: (bytes) => void (value = crc32(bytes, value)),
    hex: () => value.toString(16).padStart(8, "0"),
  }
}

/**
 * CRC-32 of a file.
 *
 * @throws CohortError `file_invalid` for an unreadable file, `aborted`
 * @example await checksumFile("model.safetensors") // "9f86d081"
 */
export async function checksumFile(path: string, signal?: AbortSignal): Promise<string> {
  const checksum = createChecksum()
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024, ...(signal && { signal }) })) checksum.update(chunk as Uint8Array)
  } catch (error) {
    throw toCohortError(error, "file_invalid", path)
  }
  return checksum.hex()
}
