// Element types of the format, in the order in which the reference (Rust) writer lays tensors out: widest alignment first.

/** Bits of one element. The key order is the layout order of the reference writer. */
const bitsByDtype = {
  U64: 64,
  I64: 64,
  F64: 64,
  C64: 64,
  F32: 32,
  U32: 32,
  I32: 32,
  BF16: 16,
  F16: 16,
  U16: 16,
  I16: 16,
  F8_E5M2FNUZ: 8,
  F8_E4M3FNUZ: 8,
  F8_E8M0: 8,
  F8_E4M3: 8,
  F8_E5M2: 8,
  I8: 8,
  U8: 8,
  F6_E3M2: 6,
  F6_E2M3: 6,
  F4: 4,
  BOOL: 8,
} as const

/** Name of an element type as it stands in a header. */
export type Dtype = keyof typeof bitsByDtype

const dtypes = Object.keys(bitsByDtype) as readonly Dtype[]
const rankByDtype = new Map<string, number>(dtypes.map((dtype, rank) => [dtype, rank]))

/** Every element type that is read and written. */
export const supportedDtypes: readonly Dtype[] = dtypes

/** True for the name of a supported element type. */
export function isDtype(value: unknown): value is Dtype {
  return typeof value === "string" && rankByDtype.has(value)
}

/** Place of `dtype` in the layout order of the reference writer; lower comes first in the file. */
export function dtypeRank(dtype: Dtype): number {
  return rankByDtype.get(dtype) ?? dtypes.length
}

/**
 * Bytes that a tensor takes, or undefined when the count is no safe integer or no whole number of bytes.
 *
 * @example byteLengthOf("BF16", [2, 3]) // 12
 */
export function byteLengthOf(dtype: Dtype, shape: readonly number[]): number | undefined {
  let elements = 1
  for (const size of shape) {
    elements *= size
    if (!Number.isSafeInteger(elements)) return undefined
  }
  const bits = elements * bitsByDtype[dtype]
  return Number.isSafeInteger(bits) && bits % 8 === 0 ? bits / 8 : undefined
}
