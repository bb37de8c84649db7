// A new safetensors file written piece by piece, in the order of its tensors: for values that lie somewhere already and are not to be copied first.
import { closeSync, openSync, unlinkSync, writeSync } from "node:fs"
import { CohortError, toCohortError } from "@cohort/errors"
import { createChecksum } from "./checksum.ts"
import { headOf, type TensorInfo } from "./layout.ts"

export interface WrittenFile {
  readonly bytes: number
  /** CRC-32, eight hex digits. */
  readonly checksum: string
}

export interface NewSafetensors {
  /** The next bytes of the data, wherever tensors begin and end. @throws CohortError `disk_full`, `file_invalid` */
  append(bytes: Uint8Array): void
  /** Closes the file. @throws CohortError `file_invalid` when bytes are missing; call `discard` then */
  finish(): WrittenFile
  /** Closes and removes the file. */
  discard(): void
}

/**
 * Creates a file for tensors of which only the kinds are known yet. It grows under its own name and is not flushed to the disk: for a folder that
 * becomes visible when all is there. {@link writeSafetensors} replaces a file at once.
 *
 * @throws CohortError `file_invalid` for tensors that the format does not allow or a file that exists, `disk_full`
 * @example
 * const file = createSafetensors("new/model.safetensors", [{ name: "w", dtype: "F32", shape: [2] }], {})
 * file.append(bytes)
 * const { checksum } = file.finish()
 */
export function createSafetensors(path: string, tensors: readonly TensorInfo[], metadata: Readonly<Record<string, string>>): NewSafetensors {
  const { head, dataBytes } = headOf(tensors, metadata)
  const checksum = createChecksum()
  let written = 0
  let file: number | undefined
  const typed = <T>(body: () => T): T => {
    try {
      return body()
    } catch (cause) {
      throw toCohortError(cause, "file_invalid", `writing ${path}`)
    }
  }
  const close = (): void => {
    if (file !== undefined) closeSync(file)
    file = undefined
  }
  const append = (bytes: Uint8Array): void => {
    checksum.update(bytes)
    typed(() => {
      for (let at = 0; at < bytes.length; ) at += writeSync(file!, bytes, at, bytes.length - at)
    })
    written += bytes.length
  }
  const discard = (): void => {
    close()
    unlinkSync(path)
  }
  typed(() => (file = openSync(path, "wx")))
  try {
    append(head)
  } catch (cause) {
    discard()
    throw cause
  }
  return {
    append,
    finish() {
      if (written !== head.length + dataBytes) throw new CohortError("file_invalid", `${path}: ${written - head.length} bytes were written, its tensors have ${dataBytes}`)
      close()
      return { bytes: written, checksum: checksum.hex() }
    },
    discard,
  }
}
