// TensorFlow's dtype numbers, the ones that cross our border.

export const DType = { float32: 1, float64: 2, int32: 3, uint8: 4, string: 7, int64: 9, bool: 10, bfloat16: 14, float16: 19, resource: 20, uint32: 22 } as const
/** A TensorFlow dtype number. */
export type DType = (typeof DType)[keyof typeof DType]

/** Bytes of one element. */
export function byteSize(dtype: DType): number {
  switch (dtype) {
    case DType.float64:
    case DType.int64:
      return 8
    case DType.float32:
    case DType.int32:
    case DType.uint32:
      return 4
    case DType.bfloat16:
    case DType.float16:
      return 2
    default:
      return 1
  }
}

/** Number of elements of a shape. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, dim) => product * dim, 1)
}
