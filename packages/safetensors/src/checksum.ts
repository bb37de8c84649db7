// Checksums of weight files: SHA-256, the one that `sha256sum` prints and that the Hugging Face hub stores for large files.
import { createReadStream } from "node:fs"
import { toCohortError } from "@cohort/errors"

/**
 * SHA-256 of a file, lower-case hex.
 *
 * @throws CohortError `file_invalid` for an unreadable file, `aborted`
 * @example await checksumFile("model.safetensors") // "9f86d081..."
 */
export async function checksumFile(path: string, signal?: AbortSignal): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256")
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024, ...(signal && { signal }) })) hasher.update(chunk as Uint8Array)
  } catch (error) {
    throw toCohortError(error, "file_invalid", path)
  }
  return hasher.digest("hex")
}
