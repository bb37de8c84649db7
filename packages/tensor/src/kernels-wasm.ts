// Kernels of tfjs's wasm backend that give wrong answers or are missing, replaced; and guards where it fails in silence.
import {
  add, elu, getKernel, type KernelFunc, leakyRelu, matMul, prelu, registerKernel, relu, relu6, reshape, sigmoid, slice, sum, type Tensor, type TensorInfo, tidy, transpose, unregisterKernel, util,
  div,
} from "@tensorflow/tfjs-core"
import type { BackendWasm } from "@tensorflow/tfjs-backend-wasm"
import { CohortError } from "@cohort/errors"
import { sizeOf } from "./dtype.ts"
import { repairBroadcastProducts, wrapKernel } from "./kernels-fallback.ts"

const backendName = "wasm"

const repaired = new WeakSet<BackendWasm>()

/** Replaces kernels and guards `backend`; a second time changes nothing. */
export function repairWasm(backend: BackendWasm): void {
  if (repaired.has(backend)) return
  repaired.add(backend)
  guardMemory(backend)
  guardRank(backend)
  replace("UnsortedSegmentSum", ({ inputs, attrs }) => {
    const { x, segmentIds } = inputs as { x: Tensor; segmentIds: Tensor }
    return unsortedSegmentSum(backend, x, segmentIds, attrs!["numSegments"] as number)
  })
  replace("_FusedMatMul", ({ inputs, attrs }) => fusedMatMul(inputs as unknown as FusedInputs, attrs as unknown as FusedAttributes))
  wrapKernel("BatchMatMul", backendName, (original) => (call) => {
    const { a, b } = call.inputs as { a: Tensor; b: Tensor }
    const { transposeA, transposeB } = call.attrs as unknown as { transposeA: boolean; transposeB: boolean }
    const [batchA, batchB] = [sizeOf(a.shape.slice(0, -2)), sizeOf(b.shape.slice(0, -2))]
    // Only one product without transposes takes the fast path of the library.
    if (batchA > 1 && batchB === 1 && b.rank <= a.rank && !transposeA)
      return tidy(() => {
        const product = matMul(reshape(a, [-1, a.shape.at(-1)!]), reshape(b, b.shape.slice(-2)), false, transposeB)
        return reshape(product, [...a.shape.slice(0, -1), product.shape[1]!])
      })
    if ((!transposeA && !transposeB) || batchA > 1 || batchB > 1) return original(call)
    return tidy(() => matMul(transposeA ? swapped(a) : a, transposeB ? swapped(b) : b))
  })
  repairBroadcastProducts(backendName)
  wrapKernel("Sum", backendName, (original) => (call) => {
    const { x } = call.inputs as { x: Tensor }
    const { axis, keepDims } = call.attrs as unknown as { axis: number | number[]; keepDims: boolean }
    return x.dtype === "float32" && reducedSize(x, axis) > directElements ? sumInBlocks(x, axis, keepDims) : original(call)
  })
  wrapKernel("Mean", backendName, (original) => (call) => {
    const { x } = call.inputs as { x: Tensor }
    const { axis, keepDims } = call.attrs as unknown as { axis: number | number[]; keepDims: boolean }
    const count = reducedSize(x, axis)
    return x.dtype === "float32" && count > directElements ? tidy(() => div(sumInBlocks(x, axis, keepDims), count)) : original(call)
  })
}

function replace(kernelName: string, kernelFunc: KernelFunc): void {
  if (getKernel(kernelName, backendName) !== undefined) unregisterKernel(kernelName, backendName)
  registerKernel({ kernelName, backendName, kernelFunc })
}

/** A failed allocation returns address 0, which the library would use. */
function guardMemory(backend: BackendWasm): void {
  const wasm = backend.wasm as unknown as { _malloc(bytes: number): number; _free(address: number): void }
  // The first call replaces the property by the real function, so it comes before ours.
  wasm._free(wasm._malloc(8))
  const allocate = wasm._malloc.bind(wasm)
  wasm._malloc = (bytes) => {
    const address = allocate(bytes)
    if (address === 0 && bytes > 0)
      throw new CohortError("tensor_failed", `the wasm backend has no memory for ${bytes} more bytes; it can address 4 GiB`, {
        hint: "Use a smaller batch or model, or the tensorflow backend (`cohort runtime install`).",
      })
    return address
  }
}

/** Element-wise kernels return uninitialised memory above rank 6. */
function guardRank(backend: BackendWasm): void {
  const make = backend.makeOutput.bind(backend)
  backend.makeOutput = (shape, ...rest) => {
    if (shape.length > 6) throw new CohortError("tensor_failed", `the wasm backend computes up to rank 6, not [${shape.join(", ")}]`, { hint: "Merge axes with reshape first." })
    return make(shape, ...rest)
  }
}

function swapped(x: Tensor): Tensor {
  const axes = x.shape.map((_, i) => i)
  return transpose(x, [...axes.slice(0, -2), axes.length - 1, axes.length - 2])
}

/** A single float32 accumulator stops counting at 2^24 and loses digits long before: sums above this many go by blocks. */
const directElements = 1024
const blockElements = 128

function reducedSize(x: Tensor, axis: number | number[]): number {
  return sizeOf(util.parseAxisParam(axis, x.shape).map((i) => x.shape[i]!))
}

function sumInBlocks(x: Tensor, axis: number | number[], keepDims: boolean): Tensor {
  return tidy(() => {
    const axes = util.parseAxisParam(axis, x.shape)
    const kept = x.shape.map((_, i) => i).filter((i) => !axes.includes(i))
    const outer = sizeOf(kept.map((i) => x.shape[i]!))
    const count = reducedSize(x, axis)
    const rows = reshape(transpose(x, [...kept, ...axes]), [outer, count])
    const blocks = Math.floor(count / blockElements)
    const whole = blocks * blockElements
    const total = sum(sum(reshape(whole === count ? rows : slice(rows, [0, 0], [outer, whole]), [outer, blocks, blockElements]), 2), 1)
    const all = whole === count ? total : add(total, sum(slice(rows, [0, whole], [outer, count - whole]), 1))
    return reshape(all, keepDims ? x.shape.map((size, i) => (axes.includes(i) ? 1 : size)) : kept.map((i) => x.shape[i]!))
  })
}

/** Rows of `x` summed by segment; ids outside of the range are left out, as TensorFlow does on a GPU. */
function unsortedSegmentSum(backend: BackendWasm, x: TensorInfo, segmentIds: TensorInfo, segments: number): TensorInfo {
  const width = sizeOf(x.shape.slice(1))
  const out = backend.makeOutput([segments, ...x.shape.slice(1)], x.dtype)
  // Views are taken after the allocation, which may have replaced the memory.
  const [values, ids, sums] = [x, segmentIds, out].map((info) => backend.typedArrayFromHeap(info)) as [Float32Array, Int32Array, Float32Array]
  sums.fill(0)
  for (let row = 0; row < ids.length; row++) {
    const segment = ids[row]!
    if (segment < 0 || segment >= segments) continue
    const from = row * width
    const to = segment * width
    for (let i = 0; i < width; i++) sums[to + i]! += values[from + i]!
  }
  return out
}

interface FusedInputs {
  readonly a: Tensor
  readonly b: Tensor
  readonly bias?: Tensor
  readonly preluActivationWeights?: Tensor
}
interface FusedAttributes {
  readonly transposeA: boolean
  readonly transposeB: boolean
  readonly activation: string
  readonly leakyreluAlpha: number
}

/** The library's own adds the bias once per block of the inner dimension, and clips partial sums. */
function fusedMatMul({ a, b, bias, preluActivationWeights }: FusedInputs, { transposeA, transposeB, activation, leakyreluAlpha }: FusedAttributes): Tensor {
  return tidy(() => {
    const product = matMul(a, b, transposeA, transposeB)
    const x = bias === undefined ? product : add(product, bias)
    switch (activation) {
      case "linear":
        return x
      case "relu":
        return relu(x)
      case "relu6":
        return relu6(x)
      case "elu":
        return elu(x)
      case "sigmoid":
        return sigmoid(x)
      case "leakyrelu":
        return leakyRelu(x, leakyreluAlpha)
      case "prelu":
        return prelu(x, preluActivationWeights!)
      default:
        throw new CohortError("tensor_failed", `fused matMul has no activation ${activation}`)
    }
  })
}
