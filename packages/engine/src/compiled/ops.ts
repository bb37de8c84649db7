// The ops that the decoder is written in. libtensorflow's raw ops are one implementation (any dtype, traced); tfjs-core's are the
// other, so that the fallback backends run the very same layers.
import {
  add, cast, concat, div, exp, fill, gather, less, log, logicalAnd, logicalOr, matMul, max, mean, mul, neg, range, reshape, rsqrt, scalar, sigmoid, slice,
  softmax, square, sub, sum, type Tensor, transpose, where,
} from "@tensorflow/tfjs-core"
import { DType, type RawOps } from "@cohort/tensor"

/** What decoder layers use; see `RawOps` of the tensor package for the meaning of each. */
export type Ops = Pick<
  RawOps,
  | "dtypeOf" | "cast" | "add" | "sub" | "mul" | "div" | "neg" | "exp" | "log" | "rsqrt" | "square" | "sigmoid" | "softmax" | "sum" | "mean" | "max"
  | "less" | "and" | "or" | "select" | "reshape" | "transpose" | "slice" | "concat" | "gather" | "range" | "fill" | "matMul" | "batchMatMul"
>

const labels: Readonly<Record<number, "float32" | "int32" | "bool">> = { [DType.float32]: "float32", [DType.int32]: "int32", [DType.bool]: "bool" }
const numbers: Readonly<Record<string, number>> = { float32: DType.float32, int32: DType.int32, bool: DType.bool }

/** The same ops in tfjs-core, for the backends without raw ops. */
export const coreOps: Ops = {
  dtypeOf: (x) => numbers[x.dtype] ?? DType.float32,
  cast: (x, dtype) => cast(x, labels[dtype] ?? "float32"),
  add,
  sub,
  mul,
  div,
  neg,
  exp,
  log,
  rsqrt,
  square,
  sigmoid,
  softmax: (x) => softmax(x),
  sum: (x, axis, keepDims = false) => sum(x, axis, keepDims),
  mean: (x, axis, keepDims = false) => mean(x, axis, keepDims),
  max: (x, axis, keepDims = false) => max(x, axis, keepDims),
  less,
  and: logicalAnd,
  or: logicalOr,
  select: (condition, yes, no) => where(condition, yes, no),
  reshape: (x, shape) => reshape(x, [...shape]),
  transpose: (x, permutation) => transpose(x, [...permutation]),
  slice: (x, begin, size) => slice(x, [...begin], [...size]),
  concat: (xs, axis) => concat([...xs], axis),
  gather: (x, indices, axis = 0, batchDims = 0) => gather(x, indices, axis, batchDims),
  range: (size) => range(0, size, 1, "int32"),
  fill: (shape, value) => mul(fill([...shape], 1), value),
  matMul: (a, b, transposeA = false, transposeB = false) => matMul(a, b, transposeA, transposeB),
  batchMatMul: (a, b, transposeA = false, transposeB = false) => matMul(a, b, transposeA, transposeB),
}

/** A float32 scalar; small enough to become a constant of a trace. */
export function float(value: number): Tensor {
  return scalar(value)
}

/** A tensor of one repeated scalar tensor. */
export function filled(ops: Pick<Ops, "fill">, shape: readonly number[], value: Tensor): Tensor {
  // oxlint-disable-next-line unicorn/no-array-fill-with-reference-type -- a tensor op, not an array's method
  return ops.fill(shape, value)
}
