// Each gradient against central differences of the same function, on each backend.
import { add, cumsum, einsum, gather, grads, logSoftmax, matMul, mean, mul, reshape, rsqrt, scalar, slice, concat, softmax, square, sub, sum, type Tensor, tensor, tidy, tile, where } from "@tensorflow/tfjs-core"
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { openRuntime } from "./open.ts"
import type { BackendName, TensorRuntime } from "./runtime.ts"
import { sizeOf } from "./dtype.ts"
import { libraryPath, tensorflow } from "./testing/runtime.ts"

/** Values in [-1, 1) that differ from each other: a fixed sequence of multiples of an irrational number. */
function values(count: number, from: number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => 2 * (((i + from) * 0.6180339887) % 1) - 1)
}

interface Case {
  readonly name: string
  readonly shapes: readonly (readonly number[])[]
  readonly fn: (...inputs: Tensor[]) => Tensor
  /** Added to the inputs, for functions that need positive ones. */
  readonly offset?: number
  /** Kernels that a backend lacks. */
  readonly not?: readonly BackendName[]
}

const ints = (list: number[], shape: number[]): Tensor => tensor(list, shape, "int32")

const cases: readonly Case[] = [
  { name: "matMul of a batch and a matrix", shapes: [[2, 3, 4], [4, 5]], fn: (a, b) => matMul(a, b) },
  { name: "matMul of a batch and a transposed matrix", shapes: [[2, 3, 4], [5, 4]], fn: (a, b) => matMul(a, b, false, true) },
  { name: "matMul of a matrix and a batch", shapes: [[3, 4], [2, 4, 5]], fn: (a, b) => matMul(a, b) },
  { name: "matMul of a transposed batch and a matrix", shapes: [[2, 4, 3], [4, 5]], fn: (a, b) => matMul(a, b, true, false) },
  { name: "matMul with a batch axis of one", shapes: [[2, 1, 3, 4], [1, 3, 4, 2]], fn: (a, b) => matMul(a, b) },
  ...[false, true].flatMap((ta) => [false, true].map((tb): Case => ({
    name: `matMul, transposes ${ta} ${tb}`,
    shapes: [[2, ...(ta ? [4, 3] : [3, 4])], [2, ...(tb ? [5, 4] : [4, 5])]],
    fn: (a, b) => matMul(a, b, ta, tb),
  }))),
  { name: "cumsum along the first axis", shapes: [[3, 3]], fn: (x) => cumsum(x, 0) },
  { name: "cumsum along the middle axis, exclusive and reversed", shapes: [[2, 3, 2]], fn: (x) => cumsum(x, 1, true, true) },
  { name: "gather with repeated indices", shapes: [[4, 3]], fn: (x) => gather(x, ints([2, 0, 2, 2], [4])) },
  { name: "gather along the last axis with two index axes", shapes: [[2, 4]], fn: (x) => gather(x, ints([1, 3, 1, 0], [2, 2]), 1) },
  { name: "gather with one batch axis", shapes: [[2, 4, 3]], fn: (x) => gather(x, ints([1, 3, 1, 0, 0, 2], [2, 3]), 1, 1), not: ["wasm"] },
  { name: "gather with one batch axis along the last", shapes: [[2, 2, 4]], fn: (x) => gather(x, ints([1, 3, 0, 0], [2, 2]), 2, 1), not: ["wasm", "cpu"] },
  { name: "gather with two batch axes", shapes: [[2, 2, 3]], fn: (x) => gather(x, ints([1, 2, 0, 0, 2, 2, 1, 1], [2, 2, 2]), 2, 2), not: ["wasm", "cpu"] },
  { name: "where, broadcast", shapes: [[2, 3], [3]], fn: (a, b) => where(tensor([1, 0, 1, 0, 0, 1], [2, 3], "bool"), a, b) },
  { name: "sum over two of three axes", shapes: [[2, 3, 4]], fn: (x) => square(sum(x, [0, -1])) },
  { name: "mean with kept axes", shapes: [[2, 3, 4]], fn: (x) => square(mean(x, [1], true)) },
  { name: "rsqrt", shapes: [[5]], fn: (x) => rsqrt(x), offset: 1.5 },
  { name: "tile of rank 5", shapes: [[2, 1, 2, 1, 2]], fn: (x) => tile(x, [1, 3, 1, 2, 2]) },
  { name: "einsum of two operands", shapes: [[2, 3, 4], [4, 5, 2]], fn: (a, b) => einsum("bik,kjb->bij", a, b), not: ["wasm"] },
  { name: "softmax and logSoftmax", shapes: [[3, 4]], fn: (x) => add(softmax(x), logSoftmax(x)) },
  { name: "rms norm", shapes: [[2, 8], [8]], fn: (x, g) => mul(mul(x, rsqrt(add(mean(square(x), -1, true), scalar(1e-5)))), g) },
  { name: "slices and a concat, as in rotary positions", shapes: [[2, 3, 4]], fn: (x) => concat([sub(scalar(0), slice(x, [0, 0, 2], [2, 3, 2])), slice(x, [0, 0, 0], [2, 3, 2])], 2) },
]

for (const backend of ["cpu", "wasm", "tensorflow"] as const)
  describe.skipIf(backend === "tensorflow" && libraryPath === undefined)(`gradients on ${backend}`, () => {
    let runtime: TensorRuntime
    beforeAll(async () => {
      runtime = backend === "tensorflow" ? await tensorflow() : await openRuntime({ backend })
    })
    afterAll(() => runtime.close())

    for (const { name, shapes, fn, offset = 0, not = [] } of cases)
      test.skipIf(not.includes(backend))(name, () => {
        tidy(() => {
          const inputs = shapes.map((shape, k) => values(sizeOf(shape), 7 * k + 1).map((v) => v + offset))
          const tensors = (arrays: readonly Float32Array[]): Tensor[] => arrays.map((array, k) => tensor(array, [...shapes[k]!]))
          const size = fn(...tensors(inputs)).size
          // A weighted sum, so that no two outputs can be mistaken for each other.
          const weights = values(size, 3)
          const analytic = grads((...xs: Tensor[]) => sum(mul(reshape(fn(...xs), [-1]), tensor(weights))))(tensors(inputs)).map((g) => [...g.dataSync()])
          const step = 1 / 64
          const value = (arrays: readonly Float32Array[]): number => [...fn(...tensors(arrays)).dataSync()].reduce((total, y, i) => total + y * weights[i]!, 0)
          for (const [k, array] of inputs.entries())
            for (const i of array.keys()) {
              const moved = (by: number): number => value(inputs.map((other, j) => (j === k ? other.map((v, n) => (n === i ? v + by : v)) : other)))
              const numeric = (moved(step) - moved(-step)) / (2 * step)
              expect(Math.abs(analytic[k]![i]! - numeric), `input ${k}, element ${i}: ${analytic[k]![i]} and ${numeric}`).toBeLessThan(3e-3 * Math.max(1, Math.abs(numeric)))
            }
        })
      })

    test("where keeps an infinite gradient on its own side", () => {
      const condition = tensor([1, 0], [2], "bool")
      const [a, b] = grads((x: Tensor, y: Tensor) => mul(where(condition, x, y), tensor([Infinity, 2])))([tensor([1, 1]), tensor([1, 1])])
      expect([...a!.dataSync()]).toEqual([Infinity, 0])
      expect([...b!.dataSync()]).toEqual([0, 2])
    })
  })
