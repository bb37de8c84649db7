// TensorFlow ops that tfjs does not have, on tfjs tensors, eager or traced. dtype attributes follow the real dtypes of the inputs,
// so bf16 works here.
import { scalar, type Tensor, tensor1d, tidy } from "@tensorflow/tfjs-core"
import { type Attribute, AttributeKind } from "./attribute.ts"
import type { Known } from "./binding.ts"
import { wrap } from "./compile.ts"
import { DType } from "./dtype.ts"
import type { TensorflowBackend } from "./tensorflow-backend.ts"
import { currentTrace, describe } from "./trace.ts"

export const attr = {
  type: (name: string, value: number): Attribute => ({ name, type: AttributeKind.type, value }),
  int: (name: string, value: number | readonly number[]): Attribute => ({ name, type: AttributeKind.int, value }),
  float: (name: string, value: number): Attribute => ({ name, type: AttributeKind.float, value }),
  bool: (name: string, value: boolean): Attribute => ({ name, type: AttributeKind.bool, value }),
  strings: (name: string, value: readonly string[]): Attribute => ({ name, type: AttributeKind.stringList, value }),
  string: (name: string, value: string): Attribute => ({ name, type: AttributeKind.string, value }),
  shape: (name: string, value: readonly number[]): Attribute => ({ name, type: AttributeKind.shape, value }),
}

export type RawOps = ReturnType<typeof createRawOps>

export function createRawOps(backend: TensorflowBackend) {
  const { binding } = backend
  const dtypeOf = (x: Tensor): number => describe(binding, backend.idOf(x)).dtype
  const many = (op: string, inputs: readonly Tensor[], attributes: readonly Attribute[], outputs: number, known?: readonly Known[]): Tensor[] =>
    binding.executeOp(op, attributes, inputs.map((x) => backend.idOf(x)), outputs, known).map((meta) => wrap(backend, meta))
  const one = (op: string, inputs: readonly Tensor[], attributes: readonly Attribute[], known?: Known): Tensor => many(op, inputs, attributes, 1, known && [known])[0]!
  const unary = (op: string) => (x: Tensor): Tensor => one(op, [x], [attr.type("T", dtypeOf(x))])
  const binary = (op: string) => (a: Tensor, b: Tensor): Tensor => one(op, [a, b], [attr.type("T", dtypeOf(a))])
  /** Axes, shapes and other small inputs are tensors of their own, which go with the call. */
  const scoped = <A extends readonly unknown[], R extends Tensor | Tensor[]>(op: (...args: A) => R) => (...args: A): R => tidy(() => op(...args))
  const ints = (values: readonly number[]): Tensor => tensor1d([...values], "int32")
  const int = (value: number): Tensor => scalar(value, "int32")
  const reduce = (op: string) =>
    scoped((x: Tensor, axis: number, keepDims: boolean = false): Tensor => one(op, [x, ints([axis])], [attr.type("T", dtypeOf(x)), attr.type("Tidx", DType.int32), attr.bool("keep_dims", keepDims)]))
  const cast = (x: Tensor, dtype: number): Tensor =>
    dtypeOf(x) === dtype ? x : one("Cast", [x], [attr.type("SrcT", dtypeOf(x)), attr.type("DstT", dtype), attr.bool("Truncate", false)])
  /** In a trace the bf16 tensor that float32 `x` was cast from, which holds the same values in half the memory; `x` itself where there is none. */
  const narrowest = (x: Tensor): Tensor => {
    const source = currentTrace(binding)?.sourceOf(backend.idOf(x))
    return source === undefined ? x : wrap(backend, source)
  }
  return {
    one,
    many,
    dtypeOf,
    ints,
    int,
    cast,
    narrowest,
    add: binary("AddV2"),
    sub: binary("Sub"),
    mul: binary("Mul"),
    div: binary("RealDiv"),
    minimum: binary("Minimum"),
    maximum: binary("Maximum"),
    bitwiseXor: binary("BitwiseXor"),
    bitwiseAnd: binary("BitwiseAnd"),
    rightShift: binary("RightShift"),
    less: binary("Less"),
    lessEqual: binary("LessEqual"),
    greater: binary("Greater"),
    greaterEqual: binary("GreaterEqual"),
    equal: (a: Tensor, b: Tensor): Tensor => one("Equal", [a, b], [attr.type("T", dtypeOf(a)), attr.bool("incompatible_shape_error", true)]),
    and: (a: Tensor, b: Tensor): Tensor => one("LogicalAnd", [a, b], []),
    or: (a: Tensor, b: Tensor): Tensor => one("LogicalOr", [a, b], []),
    not: (a: Tensor): Tensor => one("LogicalNot", [a], []),
    neg: unary("Neg"),
    exp: unary("Exp"),
    log: unary("Log"),
    rsqrt: unary("Rsqrt"),
    square: unary("Square"),
    sigmoid: unary("Sigmoid"),
    /** Half the sum of squares; a scalar. */
    l2Loss: unary("L2Loss"),
    softmax: unary("Softmax"),
    logSoftmax: unary("LogSoftmax"),
    sum: reduce("Sum"),
    mean: reduce("Mean"),
    max: reduce("Max"),
    select: (condition: Tensor, yes: Tensor, no: Tensor): Tensor => one("SelectV2", [condition, yes, no], [attr.type("T", dtypeOf(yes))]),
    argMax: scoped((x: Tensor, axis: number): Tensor => one("ArgMax", [x, int(axis)], [attr.type("T", dtypeOf(x)), attr.type("Tidx", DType.int32), attr.type("output_type", DType.int32)])),
    reshape: scoped((x: Tensor, shape: readonly number[]): Tensor => one("Reshape", [x, ints(shape)], [attr.type("T", dtypeOf(x)), attr.type("Tshape", DType.int32)])),
    transpose: scoped((x: Tensor, permutation: readonly number[]): Tensor => one("Transpose", [x, ints(permutation)], [attr.type("T", dtypeOf(x)), attr.type("Tperm", DType.int32)])),
    slice: scoped((x: Tensor, begin: readonly number[], size: readonly number[]): Tensor => one("Slice", [x, ints(begin), ints(size)], [attr.type("T", dtypeOf(x)), attr.type("Index", DType.int32)])),
    concat: scoped((xs: readonly Tensor[], axis: number): Tensor => one("ConcatV2", [...xs, int(axis)], [attr.int("N", xs.length), attr.type("T", dtypeOf(xs[0]!)), attr.type("Tidx", DType.int32)])),
    gather: scoped((x: Tensor, indices: Tensor, axis: number = 0, batchDims: number = 0): Tensor =>
      one("GatherV2", [x, indices, int(axis)], [attr.int("batch_dims", batchDims), attr.type("Tparams", dtypeOf(x)), attr.type("Tindices", DType.int32), attr.type("Taxis", DType.int32)])),
    range: scoped((size: number): Tensor => one("Range", [int(0), int(size), int(1)], [attr.type("Tidx", DType.int32)])),
    fill: scoped((shape: readonly number[], value: Tensor): Tensor => one("Fill", [ints(shape), value], [attr.type("T", dtypeOf(value)), attr.type("index_type", DType.int32)])),
    /** [M, K] x [K, N]; both of one dtype, which the result has too. */
    matMul: (a: Tensor, b: Tensor, transposeA = false, transposeB = false): Tensor =>
      one("MatMul", [a, b], [attr.type("T", dtypeOf(a)), attr.bool("transpose_a", transposeA), attr.bool("transpose_b", transposeB)]),
    /**
     * [M, K] x [N, K]^T by a kernel of oneDNN's that rearranges `b` at its first run and keeps that copy for all later ones, so in a
     * compiled function `b` must not change before its `forgetKernels()`. CPU only.
     * @param bias [N], which the kernel adds; zeros when absent. In a loop, give it some from outside: what the body makes is made at every turn.
     */
    packedMatMul: scoped((a: Tensor, b: Tensor, bias?: Tensor): Tensor => {
      const T = dtypeOf(b)
      const added = bias ?? one("Fill", [ints([b.shape[0]!]), cast(scalar(0), T)], [attr.type("T", T), attr.type("index_type", DType.int32)])
      return one("_MklNativeFusedMatMul", [a, b, added], [
        attr.bool("transpose_a", false), attr.bool("transpose_b", true), attr.type("T", T), attr.strings("fused_ops", ["BiasAdd"]),
        attr.bool("is_filter_const", true), attr.string("_kernel", "MklNameChangeOp"),
      ])
    }),
    batchMatMul: (a: Tensor, b: Tensor, transposeA = false, transposeB = false): Tensor =>
      one("BatchMatMulV2", [a, b], [attr.type("T", dtypeOf(a)), attr.bool("adj_x", transposeA), attr.bool("adj_y", transposeB)]),
    topK: scoped((x: Tensor, k: number): Tensor[] => many("TopKV2", [x, int(k)], [attr.type("T", dtypeOf(x)), attr.bool("sorted", true)], 2)),
    cumsum: scoped((x: Tensor, axis: number, exclusive: boolean = false): Tensor =>
      one("Cumsum", [x, int(axis)], [attr.type("T", dtypeOf(x)), attr.type("Tidx", DType.int32), attr.bool("exclusive", exclusive), attr.bool("reverse", false)])),
    /** XLA only: writes `update` into `x` at `start` (one index per axis). */
    dynamicUpdateSlice: (x: Tensor, update: Tensor, start: Tensor): Tensor => one("XlaDynamicUpdateSlice", [x, update, start], [attr.type("T", dtypeOf(x)), attr.type("Tindices", DType.int32)]),
    dynamicSlice: scoped((x: Tensor, start: Tensor, size: readonly number[]): Tensor => one("XlaDynamicSlice", [x, start, ints(size)], [attr.type("T", dtypeOf(x)), attr.type("Tindices", DType.int32)])),
    /** Per row: [loss, d loss / d logits] of the log-softmax at `labels`. */
    sparseCrossEntropy: (logits: Tensor, labels: Tensor): [Tensor, Tensor] =>
      many("SparseSoftmaxCrossEntropyWithLogits", [logits, labels], [attr.type("T", dtypeOf(logits)), attr.type("Tlabels", DType.int32)], 2) as [Tensor, Tensor],
  }
}
