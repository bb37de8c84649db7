// Number formats of weights as plain loops over typed arrays. Rounding is to nearest, ties to even, as IEEE 754 and PyTorch do.
import { CohortError } from "@cohort/errors"
import type { Dtype } from "./dtype.ts"

/** Dtypes that convert to float32. */
export type FloatDtype = Extract<Dtype, "F16" | "BF16" | "F32" | "F64">

/**
 * bfloat16 bit patterns of float32 values. NaN stays NaN (made quiet), values past the largest become infinity.
 *
 * @example f32ToBf16(Float32Array.of(1)) // Uint16Array [0x3f80]
 */
export function f32ToBf16(values: Float32Array, out = new Uint16Array(values.length)): Uint16Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length)
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i]!
    out[i] = (word & 0x7fffffff) > 0x7f800000 ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16
  }
  return out
}

/** float32 values of bfloat16 bit patterns; exact. */
export function bf16ToF32(bits: Uint16Array, out = new Float32Array(bits.length)): Float32Array {
  const words = new Int32Array(out.buffer, out.byteOffset, out.length)
  for (let i = 0; i < bits.length; i++) words[i] = bits[i]! << 16
  return out
}

/** float16 bit patterns of float32 values; past 65,519 they become infinity. */
export function f32ToF16(values: Float32Array): Uint16Array {
  return new Uint16Array(new Float16Array(values).buffer)
}

/** float32 values of float16 bit patterns; exact. */
export function f16ToF32(bits: Uint16Array): Float32Array {
  return new Float32Array(new Float16Array(bits.buffer, bits.byteOffset, bits.length))
}

/**
 * float32 values of little-endian tensor bytes. F32 at an address divisible by 4 is a view of `bytes`, all else is new memory.
 *
 * @throws CohortError `file_invalid` for a dtype that holds no floats
 */
export function toF32(bytes: Uint8Array, dtype: Dtype): Float32Array {
  switch (dtype) {
    case "F32": {
      const source = aligned(bytes, 4)
      return new Float32Array(source.buffer, source.byteOffset, source.length / 4)
    }
    case "BF16":
      return bf16ToF32(halfWords(bytes))
    case "F16":
      return f16ToF32(halfWords(bytes))
    case "F64": {
      const source = aligned(bytes, 8)
      return new Float32Array(new Float64Array(source.buffer, source.byteOffset, source.length / 8))
    }
    default:
      throw new CohortError("file_invalid", `dtype ${dtype} does not convert to float32`, { hint: "F16, BF16, F32 and F64 do." })
  }
}

/**
 * Little-endian tensor bytes of float32 values, ready for the writer. F32 is a view of `values`.
 *
 * @example fromF32(Float32Array.of(1, 2), "BF16").length // 4
 */
export function fromF32(values: Float32Array, dtype: FloatDtype): Uint8Array {
  switch (dtype) {
    case "F32":
      return bytesOf(values)
    case "BF16":
      return bytesOf(f32ToBf16(values))
    case "F16":
      return bytesOf(f32ToF16(values))
    case "F64":
      return bytesOf(new Float64Array(values))
  }
}

/** 16-bit words of tensor bytes: a view of them, a copy at an odd address. */
export function halfWords(bytes: Uint8Array): Uint16Array {
  const source = aligned(bytes, 2)
  return new Uint16Array(source.buffer, source.byteOffset, source.length / 2)
}

// A typed array cannot start at an odd address; the format allows tensors that do.
function aligned(bytes: Uint8Array, to: number): Uint8Array {
  return bytes.byteOffset % to === 0 ? bytes : bytes.slice()
}

function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
}
