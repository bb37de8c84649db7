// One safetensors file, read through a private memory mapping: opening costs the header, a tensor costs the pages it touches.
import { statSync } from "node:fs"
import { CohortError, toCohortError } from "@cohort/errors"
import { toF32 } from "./convert.ts"
import type { Dtype } from "./dtype.ts"
import { parseHeader, type TensorEntry } from "./header.ts"

export interface TensorInfo {
  readonly dtype: Dtype
  readonly shape: readonly number[]
  /** Size in the file. */
  readonly bytes: number
}

/** Tensors by name, from one file or from the shards of a folder. */
export interface TensorReader {
  readonly names: readonly string[]
  readonly metadata: Readonly<Record<string, string>>
  has(name: string): boolean
  /** @throws CohortError `file_invalid` for a name that is not there */
  info(name: string): TensorInfo
  /** View of the mapped file; writing to it changes no file. Valid until `close`. */
  bytes(name: string): Uint8Array
  /** F16, BF16, F32 and F64 as float32. F32 may be a view of the mapping: copy it before changing it. */
  f32(name: string): Float32Array
  close(): void
}

export interface SafetensorsFile extends TensorReader, Disposable {
  readonly path: string
}

/**
 * Opens a safetensors file and checks its whole header.
 *
 * @throws CohortError `file_invalid` with the file, the tensor and the numbers; also for a missing or unreadable file
 * @example
 * using file = openSafetensors("model.safetensors")
 * const embedding = file.f32("model.embed_tokens.weight")
 */
export function openSafetensors(path: string): SafetensorsFile {
  const mapped = mapFile(path)
  const { metadata, tensors } = parseHeader(mapped, path)
  let open: Uint8Array | undefined = mapped

  const entry = (name: string): TensorEntry => {
    const found = tensors.get(name)
    if (found === undefined) {
      throw new CohortError("file_invalid", `${path}: has no tensor "${name}"`, {
        hint: `It holds ${tensors.size} tensors, the first being ${[...tensors.keys()].slice(0, 3).join(", ") || "none"}.`,
        details: { path, tensor: name },
      })
    }
    return found
  }
  const bytes = (name: string): Uint8Array => {
    const { start, end } = entry(name)
    if (open === undefined) throw new CohortError("internal", `${path}: read of tensor "${name}" after close`)
    return open.subarray(start, end)
  }
  const close = (): void => {
    open = undefined
  }
  return {
    path,
    names: [...tensors.keys()],
    metadata,
    has: (name) => tensors.has(name),
    info: (name) => {
      const { dtype, shape, start, end } = entry(name)
      return { dtype, shape, bytes: end - start }
    },
    bytes,
    f32: (name) => toF32(bytes(name), entry(name).dtype),
    close,
    [Symbol.dispose]: close,
  }
}

function mapFile(path: string): Uint8Array {
  try {
    // An empty file cannot be mapped.
    if (statSync(path).size === 0) return new Uint8Array(0)
    // Private: a view that someone writes to must not change the file under other readers.
    return Bun.mmap(path, { shared: false })
  } catch (error) {
    throw toCohortError(error, "file_invalid", path)
  }
}
