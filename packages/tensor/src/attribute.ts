// Attributes of ops: an op that runs at once and a node of a graph take them through functions of the same shape.
import { ptr } from "bun:ffi"
import type { Address, Library } from "./library.ts"

/** An attribute of an op; `type` is tfjs's numbering, extended with function names and lists of types and of strings. */
export interface Attribute {
  readonly name: string
  readonly type: (typeof AttributeKind)[keyof typeof AttributeKind]
  readonly value: string | number | boolean | readonly number[] | readonly boolean[] | readonly string[]
}
export const AttributeKind = { string: 0, int: 1, float: 2, bool: 3, type: 4, shape: 5, func: 6, typeList: 7, stringList: 8, bytes: 9 } as const

type Values = NodeJS.TypedArray
type Key = Uint8Array

/** The functions of one side, for one kind of value each. */
export interface AttributeCalls {
  readonly string: (op: Address, key: Key, bytes: Values, length: number) => void
  readonly int: (op: Address, key: Key, value: number) => void
  readonly intList: (op: Address, key: Key, values: Values, length: number) => void
  readonly float: (op: Address, key: Key, value: number) => void
  readonly floatList: (op: Address, key: Key, values: Values, length: number) => void
  readonly bool: (op: Address, key: Key, value: number) => void
  readonly boolList: (op: Address, key: Key, values: Values, length: number) => void
  readonly type: (op: Address, key: Key, value: number) => void
  readonly shape: (op: Address, key: Key, dimensions: Values, rank: number) => void
  readonly typeList: (op: Address, key: Key, values: Values, length: number) => void
  readonly stringList: (op: Address, key: Key, texts: Values, lengths: Values, count: number) => void
  readonly func: (op: Address, key: Key, bytes: Values, length: number) => void
}

export function dimensions(shape: readonly number[]): BigInt64Array {
  const out = new BigInt64Array(Math.max(1, shape.length))
  for (let i = 0; i < shape.length; i++) out[i] = BigInt(shape[i]!)
  return out
}

/** Sets one attribute of `op`. */
export function setAttribute(calls: AttributeCalls, { name }: Pick<Library, "name">, op: Address, attribute: Attribute): void {
  const key = name(attribute.name)
  const { type, value } = attribute
  if (type === AttributeKind.string || type === AttributeKind.func) {
    const bytes = Buffer.from(`${String(value)}\0`)
    return (type === AttributeKind.string ? calls.string : calls.func)(op, key, bytes, bytes.length - 1)
  }
  if (type === AttributeKind.bytes) return calls.string(op, key, Uint8Array.of(...(value as readonly number[]), 0), (value as readonly number[]).length)
  if (type === AttributeKind.stringList) {
    const texts = (value as readonly string[]).map((text) => Buffer.from(text))
    return calls.stringList(op, key, BigInt64Array.from(texts, (text) => BigInt(ptr(text))), BigInt64Array.from(texts, (text) => BigInt(text.length)), texts.length)
  }
  // What each type holds is settled where attributes are made: raw.ts and tfjs.
  const list = value as readonly number[]
  const single = value as number
  if (type === AttributeKind.shape) return calls.shape(op, key, dimensions(list), list.length)
  if (type === AttributeKind.typeList) return calls.typeList(op, key, new Int32Array(list), list.length)
  if (type === AttributeKind.type) return calls.type(op, key, single)
  if (!Array.isArray(value)) {
    if (type === AttributeKind.bool) return calls.bool(op, key, value === true ? 1 : 0)
    return (type === AttributeKind.int ? calls.int : calls.float)(op, key, single)
  }
  if (type === AttributeKind.bool) return calls.boolList(op, key, new Uint8Array(value.map(Number)), value.length)
  if (type === AttributeKind.int) return calls.intList(op, key, dimensions(list), list.length)
  calls.floatList(op, key, new Float32Array(list), list.length)
}

/** For nodes of a graph. */
export function graphCalls({ c }: Pick<Library, "c">): AttributeCalls {
  return {
    string: c.TF_SetAttrString, int: c.TF_SetAttrInt, intList: c.TF_SetAttrIntList, float: c.TF_SetAttrFloat, floatList: c.TF_SetAttrFloatList,
    bool: c.TF_SetAttrBool, boolList: c.TF_SetAttrBoolList, type: c.TF_SetAttrType, shape: c.TF_SetAttrShape, typeList: c.TF_SetAttrTypeList, stringList: c.TF_SetAttrStringList, func: c.TF_SetAttrFuncName,
  }
}

/** For ops that run at once. @param refuseFunction called for a function's name, which has no meaning there */
export function eagerCalls({ c, check, status }: Pick<Library, "c" | "check" | "status">, refuseFunction: () => never): AttributeCalls {
  return {
    string: c.TFE_OpSetAttrString, int: c.TFE_OpSetAttrInt, intList: c.TFE_OpSetAttrIntList, float: c.TFE_OpSetAttrFloat, floatList: c.TFE_OpSetAttrFloatList,
    bool: c.TFE_OpSetAttrBool, boolList: c.TFE_OpSetAttrBoolList, type: c.TFE_OpSetAttrType, typeList: c.TFE_OpSetAttrTypeList, stringList: c.TFE_OpSetAttrStringList, func: refuseFunction,
    shape(op, key, values, rank) {
      c.TFE_OpSetAttrShape(op, key, values, rank, status)
      check("shape attribute")
    },
  }
}
