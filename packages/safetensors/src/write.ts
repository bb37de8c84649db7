// Writes a safetensors file so that readers see the old file or the whole new one, never a part: temporary file in the same
// folder, flushed to the disk, then renamed.
import { open, rename, unlink, type FileHandle } from "node:fs/promises"
import { dirname } from "node:path"
import { toCohortError } from "@cohort/errors"
import { layOut, type TensorToWrite } from "./layout.ts"

const chunkBytes = 16 * 1024 * 1024

/** The file system calls that writing needs, so that a full disk can be tried out. */
export interface WriterFiles {
  open(path: string, flags: string): Promise<Pick<FileHandle, "write" | "sync" | "close">>
  rename(from: string, to: string): Promise<void>
  unlink(path: string): Promise<void>
}

export interface WriteOptions {
  readonly metadata?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** False leaves it to the system when the file reaches the disk: for one that no later start would read. True when absent. */
  readonly durable?: boolean
  /** Told of all bytes of the file in their order. */
  readonly onBytes?: (bytes: Uint8Array) => void
  readonly files?: WriterFiles
}

/**
 * Writes `tensors` to `path`, replacing what is there only once the new file is on the disk. Bytes equal those of the
 * reference writer. Mappings of the old file stay valid.
 *
 * @returns bytes of the file
 * @throws CohortError `file_invalid` for tensors that do not fit, `disk_full` (nothing is left behind, the old file stays),
 * `aborted`
 * @example
 * await writeSafetensors("out.safetensors", [{ name: "w", dtype: "F32", shape: [2], bytes: fromF32(Float32Array.of(1, 2), "F32") }])
 */
export async function writeSafetensors(path: string, tensors: Iterable<TensorToWrite>, options: WriteOptions = {}): Promise<number> {
  const { head, tensors: sorted, totalBytes } = layOut(tensors, options.metadata)
  const { files = { open, rename, unlink }, durable = true } = options
  const partial = `${path}.${crypto.randomUUID()}.partial`
  try {
    const file = await files.open(partial, "wx")
    try {
      for (const bytes of [head, ...sorted.map((tensor) => tensor.bytes)]) {
        options.onBytes?.(bytes)
        await writeAll(file, bytes, options.signal)
      }
      if (durable) await file.sync()
    } finally {
      await file.close()
    }
    await files.rename(partial, path)
  } catch (error) {
    await files.unlink(partial).catch((cleanup: unknown) => {
      if ((cleanup as { code?: unknown }).code !== "ENOENT") throw toCohortError(cleanup, "file_invalid", partial)
    })
    throw toCohortError(error, "file_invalid", `writing ${path}`)
  }
  if (durable) await syncFolder(dirname(path), files)
  return totalBytes
}

async function writeAll(file: Pick<FileHandle, "write">, bytes: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    signal?.throwIfAborted()
    const { bytesWritten } = await file.write(bytes, at, Math.min(chunkBytes, bytes.length - at))
    at += bytesWritten
  }
}

// Without it a power cut may forget the rename itself.
async function syncFolder(folder: string, files: WriterFiles): Promise<void> {
  const handle = await files.open(folder, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
