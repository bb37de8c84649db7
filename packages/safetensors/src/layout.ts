// Where each tensor goes in a new file: the order, the header and the padding of the reference writer, so that the same
// tensors give the same bytes from either.
import { CohortError } from "@cohort/errors"
import { byteLengthOf, dtypeRank, isDtype, type Dtype } from "./dtype.ts"
import { maxHeaderBytes } from "./header.ts"

/** A tensor to write; `bytes` is little-endian, row-major. */
export interface TensorToWrite {
  readonly name: string
  readonly dtype: Dtype
  readonly shape: readonly number[]
  readonly bytes: Uint8Array
}

/** What the header tells of a tensor. */
export type TensorInfo = Omit<TensorToWrite, "bytes">

export interface Layout {
  /** Length word and header, padded with spaces to a multiple of 8. */
  readonly head: Uint8Array
  /** In file order. */
  readonly tensors: readonly TensorToWrite[]
  readonly totalBytes: number
}

/**
 * Lays tensors out: wide dtypes first, then by name in UTF-8 order, metadata keys sorted.
 *
 * @throws CohortError `file_invalid` for a name given twice, a reserved name, or bytes that do not fit dtype and shape
 */
export function layOut(tensors: Iterable<TensorToWrite>, metadata: Readonly<Record<string, string>> = {}): Layout {
  const sorted = [...tensors].toSorted((a, b) => dtypeRank(a.dtype) - dtypeRank(b.dtype) || compareUtf8(a.name, b.name))
  for (const { name, dtype, shape, bytes } of sorted) {
    const expected = byteLengthOf(dtype, shape)
    if (expected !== bytes.length) fail(`tensor "${name}": shape [${shape.join(", ")}] of ${dtype} needs ${expected ?? "an unaddressable number of"} bytes, got ${bytes.length}`)
  }
  const { head, dataBytes } = headOf(sorted, metadata)
  return { head, tensors: sorted, totalBytes: head.length + dataBytes }
}

/**
 * The header of tensors that follow one another as given.
 *
 * @throws CohortError `file_invalid` for a name given twice, a reserved name, an unknown dtype or a size that is none
 */
export function headOf(tensors: readonly TensorInfo[], metadata: Readonly<Record<string, string>>): { readonly head: Uint8Array; readonly dataBytes: number } {
  const fields: string[] = []
  const keys = Object.keys(metadata).toSorted(compareUtf8)
  if (keys.length > 0) {
    fields.push(`"__metadata__":{${keys.map((key) => `${JSON.stringify(key)}:${JSON.stringify(metadata[key])}`).join(",")}}`)
  }
  const seen = new Set<string>()
  let offset = 0
  for (const tensor of tensors) {
    const end = offset + checkedSize(tensor, seen)
    seen.add(tensor.name)
    const entry = { dtype: tensor.dtype, shape: tensor.shape, data_offsets: [offset, end] }
    fields.push(`${JSON.stringify(tensor.name)}:${JSON.stringify(entry)}`)
    offset = end
  }
  return { head: frame(`{${fields.join(",")}}`), dataBytes: offset }
}

/** Bytes of a tensor that the format allows. */
function checkedSize({ name, dtype, shape }: TensorInfo, seen: ReadonlySet<string>): number {
  if (seen.has(name)) fail(`tensor "${name}" was given twice`)
  if (name === "__metadata__") fail(`"__metadata__" is reserved and cannot name a tensor`)
  if (!isDtype(dtype)) fail(`tensor "${name}": unknown dtype ${String(dtype)}`)
  if (!shape.every((size) => Number.isSafeInteger(size) && size >= 0)) fail(`tensor "${name}": shape [${shape.join(", ")}]`)
  return byteLengthOf(dtype, shape) ?? fail(`tensor "${name}": shape [${shape.join(", ")}] of ${dtype} needs an unaddressable number of bytes`)
}

function frame(json: string): Uint8Array {
  const text = new TextEncoder().encode(json)
  const padded = Math.ceil(text.length / 8) * 8
  if (padded > maxHeaderBytes) fail(`header of ${padded} bytes is over the format's ${maxHeaderBytes}; write fewer tensors a file`)
  const head = new Uint8Array(8 + padded).fill(0x20)
  new DataView(head.buffer).setBigUint64(0, BigInt(padded), true)
  head.set(text, 8)
  return head
}

// Code units sort surrogate pairs before U+E000..U+FFFF; UTF-8, and so the reference writer, after.
function compareUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const left = a.charCodeAt(i)
    const right = b.charCodeAt(i)
    if (left !== right) return utf8Rank(left) - utf8Rank(right)
  }
  return a.length - b.length
}

function utf8Rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit
}

function fail(message: string): never {
  throw new CohortError("file_invalid", message)
}
