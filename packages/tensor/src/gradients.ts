// Gradients that replace tfjs's own where those are wrong, missing, or build arrays of the input's size on the host (which a trace
// would then hold for good). Registered for all backends.
import {
  add, broadcast_util, cast, cumsum, div, fill, type GradConfig, logicalNot, matMul, mul, type NamedAttrMap, registerGradient, reshape, sum, type Tensor, type Tensor1D, tensor1d,
  transpose, unsortedSegmentSum, util, where, zerosLike, einsum,
} from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import { sizeOf } from "./dtype.ts"

/** Registers them; a second time changes nothing. */
export function registerGradients(): void {
  for (const gradient of gradients) registerGradient(gradient)
}

/** Attributes of a kernel, whose type tfjs leaves open. */
function attributesOf<T>(attributes: NamedAttrMap): T {
  return attributes as unknown as T
}

/** tfjs hands one tensor to kernels with one output, and a list otherwise. */
function only(dy: Tensor | Tensor[]): Tensor {
  return Array.isArray(dy) ? dy[0]! : dy
}

/** Sums a gradient over the axes along which its input was broadcast. */
function unbroadcast(gradient: Tensor, shape: readonly number[]): Tensor {
  const axes = broadcast_util.getReductionAxes([...shape], gradient.shape)
  return axes.length === 0 ? gradient : reshape(sum(gradient, axes), [...shape])
}

/** Upstream: no sum over a broadcast batch, so the shapes are wrong. A matrix shared by a batch takes one flat product here. */
const batchMatMul: GradConfig = {
  kernelName: "BatchMatMul",
  inputsToSave: ["a", "b"],
  gradFunc: (upstream, saved, attributes) => {
    const dy = only(upstream)
    const [a, b] = saved as [Tensor, Tensor]
    const { transposeA, transposeB } = attributesOf<{ transposeA: boolean; transposeB: boolean }>(attributes)
    const rows = (x: Tensor): Tensor => reshape(x, [-1, x.shape[x.rank - 1]!])
    const shared = b.rank === 2 && a.rank > 2 && !transposeA
    return {
      a: () => {
        if (shared) return reshape(matMul(rows(dy), b, false, !transposeB), a.shape)
        return unbroadcast(transposeA ? matMul(b, dy, transposeB, true) : matMul(dy, b, false, !transposeB), a.shape)
      },
      b: () => {
        if (shared) return transposeB ? matMul(rows(dy), rows(a), true, false) : matMul(rows(a), rows(dy), true, false)
        return unbroadcast(transposeB ? matMul(dy, a, true, transposeA) : matMul(a, dy, !transposeA, false), b.shape)
      },
    }
  },
}

/** Upstream: transposes the result when the axis is not the last. */
const cumulativeSum: GradConfig = {
  kernelName: "Cumsum",
  inputsToSave: ["x"],
  gradFunc: (dy, saved, attributes) => {
    const { axis, exclusive, reverse } = attributesOf<{ axis: number; exclusive: boolean; reverse: boolean }>(attributes)
    return { x: () => cumsum(only(dy), util.parseAxisParam(axis, saved[0]!.shape)[0]!, exclusive, !reverse) }
  },
}

/** Upstream: loops over a batch in JavaScript for batchDims 1 and fails above. One segment sum over (batch, row) pairs here. */
const gather: GradConfig = {
  kernelName: "GatherV2",
  inputsToSave: ["x", "indices"],
  gradFunc: (upstream, saved, attributes) => {
    const [x, indices] = saved as [Tensor, Tensor]
    const { axis, batchDims } = attributesOf<{ axis: number; batchDims: number }>(attributes)
    const at = util.parseAxisParam(axis, x.shape)[0]!
    const batchAxes = batchDims < 0 ? batchDims + indices.rank : batchDims
    const batch = sizeOf(x.shape.slice(0, batchAxes))
    const outer = sizeOf(x.shape.slice(batchAxes, at))
    const rows = x.shape[at]!
    const inner = sizeOf(x.shape.slice(at + 1))
    const picked = sizeOf(indices.shape.slice(batchAxes))
    return {
      x: () => {
        const values = reshape(transpose(reshape(only(upstream), [batch, outer, picked, inner]), [0, 2, 1, 3]), [batch * picked, outer * inner])
        const flat = reshape(indices, [batch, picked])
        const segments = batch === 1 ? flat : add(flat, reshape(tensor1d(Int32Array.from({ length: batch }, (_, i) => i * rows), "int32"), [batch, 1]))
        const summed = unsortedSegmentSum(values, reshape(cast(segments, "int32"), [batch * picked]) as Tensor1D, batch * rows)
        return reshape(transpose(reshape(summed, [batch, rows, outer, inner]), [0, 2, 1, 3]), x.shape)
      },
      indices: () => zerosLike(indices),
    }
  },
}

/** Upstream: multiplies by 0 and 1, so an infinite upstream gradient turns the unused side into NaN. */
const select: GradConfig = {
  kernelName: "Select",
  inputsToSave: ["condition"],
  gradFunc: (upstream, saved) => {
    const dy = only(upstream)
    const condition = saved[0]!
    return {
      condition: () => cast(zerosLike(condition), "float32"),
      t: () => where(condition, dy, zerosLike(dy)),
      e: () => where(logicalNot(condition), dy, zerosLike(dy)),
    }
  },
}

/** `dy` over the axes that a reduction removed. Upstream makes the ones on the host, as large as the input. */
function spread(dy: Tensor, shape: number[], axes: readonly number[]): Tensor {
  const kept = shape.map((size, i) => (axes.includes(i) ? 1 : size))
  return mul(reshape(dy, kept), fill(shape, 1))
}

const sumOf: GradConfig = {
  kernelName: "Sum",
  inputsToSave: ["x"],
  gradFunc: (dy, saved, attributes) => {
    const { shape } = saved[0]!
    return { x: () => spread(only(dy), shape, util.parseAxisParam(attributesOf<{ axis: number | number[] }>(attributes).axis, shape)) }
  },
}

const meanOf: GradConfig = {
  kernelName: "Mean",
  inputsToSave: ["x"],
  gradFunc: (dy, saved, attributes) => {
    const { shape } = saved[0]!
    const axes = util.parseAxisParam(attributesOf<{ axis: number | number[] }>(attributes).axis, shape)
    return { x: () => spread(div(only(dy), sizeOf(axes.map((i) => shape[i]!))), shape, axes) }
  },
}

/** Upstream: pow(x, 1.5) of the saved input; the output's cube is three products and exact at the same points. */
const rsqrt: GradConfig = {
  kernelName: "Rsqrt",
  outputsToSave: [true],
  gradFunc: (dy, saved) => {
    const y = saved[0]!
    return { x: () => mul(mul(only(dy), -0.5), mul(y, mul(y, y))) }
  },
}

/** Upstream: up to rank 4, by a loop of slices. Here: split each repeated axis into (repeat, size) and sum the repeats. */
const tile: GradConfig = {
  kernelName: "Tile",
  inputsToSave: ["x"],
  gradFunc: (dy, saved, attributes) => {
    const { shape } = saved[0]!
    const { reps } = attributesOf<{ reps: number[] }>(attributes)
    return {
      x: () => {
        const split: number[] = []
        const repeated: number[] = []
        let open = false
        for (const [i, size] of shape.entries()) {
          const times = reps[i]!
          if (times > 1) {
            repeated.push(split.length)
            split.push(times)
            if (size > 1) split.push(size)
            open = size > 1
          } else if (open) split[split.length - 1]! *= size
          else {
            split.push(size)
            open = true
          }
        }
        return reshape(sum(reshape(only(dy), split), repeated), shape)
      },
    }
  },
}

/** Upstream: none. For two operands without a label that stands in one of them only: each gradient is again a product. */
const einsumOf: GradConfig = {
  kernelName: "Einsum",
  saveAllInputs: true,
  gradFunc: (upstream, saved, attributes) => {
    const dy = only(upstream)
    const { equation } = attributesOf<{ equation: string }>(attributes)
    const [left, output] = equation.replaceAll(" ", "").split("->") as [string, string]
    const terms = left.split(",")
    if (saved.length !== 2 || terms.length !== 2) throw new CohortError("tensor_failed", `einsum ${equation} has a gradient for two operands only`)
    const part = (mine: number) => (): Tensor => {
      const other = 1 - mine
      const lost = [...terms[mine]!].filter((label) => !output.includes(label) && !terms[other]!.includes(label))
      if (lost.length > 0) throw new CohortError("tensor_failed", `einsum ${equation} has no gradient: ${lost.join(", ")} is in one operand only`, { hint: "Sum that axis before the product." })
      return einsum(`${output},${terms[other]}->${terms[mine]}`, dy, saved[other]!)
    }
    // tfjs names a list of inputs by position.
    return { 0: part(0), 1: part(1) }
  },
}

const gradients: readonly GradConfig[] = [batchMatMul, cumulativeSum, gather, select, sumOf, meanOf, rsqrt, tile, einsumOf]
