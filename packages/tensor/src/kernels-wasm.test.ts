import { add, backend, fill, fused, mean, randomNormal, reshape, scalar, sum, tensor, tidy, transpose, tensor1d, type Tensor2D, unsortedSegmentSum } from "@tensorflow/tfjs-core"
import { beforeAll, describe, expect, test } from "bun:test"
import { openRuntime } from "./open.ts"

describe("tfjs's wasm backend, repaired", () => {
  beforeAll(async () => {
    // Twice: repairs must not stack.
    await openRuntime({ backend: "wasm" })
    await openRuntime({ backend: "wasm" })
  })

  test("a fused product adds its bias once and clips at the end, at every inner dimension", () => {
    for (const inner of [1, 48, 49, 100, 257])
      for (const [transposeA, transposeB] of [[false, false], [true, false], [false, true], [true, true]] as const)
        tidy(() => {
          const a = fill(transposeA ? [inner, 2] : [2, inner], 1) as Tensor2D
          const b = fill(transposeB ? [3, inner] : [inner, 3], -1) as Tensor2D
          const run = (activation: "linear" | "relu" | "sigmoid"): number => fused.matMul({ a, b, transposeA, transposeB, bias: tensor([inner + 2, 0, 0]), activation }).dataSync()[0]!
          expect([run("linear"), run("relu")]).toEqual([2, 2])
          expect(run("sigmoid")).toBeCloseTo(1 / (1 + Math.exp(-2)), 5)
        })
  })

  test("long sums and means keep counting", () => {
    tidy(() => {
      expect(sum(fill([20_000_000], 1)).dataSync()[0]).toBe(20_000_000)
      expect(mean(fill([3_000_000], 0.1)).dataSync()[0]).toBeCloseTo(0.1, 6)
      const x = reshape(fill([2 * 1500 * 3], 0.5), [2, 1500, 3])
      const total = sum(x, 1, true)
      expect(total.shape).toEqual([2, 1, 3])
      expect([...total.dataSync()]).toEqual(Array(6).fill(750))
      expect([...sum(x, [0, 1]).dataSync()]).toEqual([1500, 1500, 1500])
      expect([...mean(transpose(x, [2, 1, 0]), [1]).dataSync()]).toEqual(Array(6).fill(0.5))
    })
  })

  test("a segment sum skips ids that are out of range", () => {
    tidy(() => {
      const out = unsortedSegmentSum(tensor([[1, 2], [3, 4], [5, 6], [7, 8]]), tensor1d([1, -1, 1, 3], "int32"), 3)
      expect([...out.dataSync()]).toEqual([0, 0, 6, 8, 0, 0])
    })
  })

  test("rank above six is refused", () => {
    tidy(() => {
      const x = reshape(fill([2], 1), [1, 1, 1, 1, 1, 1, 2])
      expect(() => add(x, scalar(1))).toThrow("the wasm backend computes up to rank 6, not [1, 1, 1, 1, 1, 1, 2]")
      expect([...add(reshape(x, [2]), scalar(1)).dataSync()]).toEqual([2, 2])
    })
  })

  test("memory that is not there is an error, and what was there stays", () => {
    const first = randomNormal([4])
    const before = [...first.dataSync()]
    const { wasm } = backend() as unknown as { wasm: { _malloc(bytes: number): number } }
    expect(() => wasm._malloc(2 ** 32 - 8)).toThrow("the wasm backend has no memory for 4294967288 more bytes")
    expect([...first.dataSync()]).toEqual(before)
    first.dispose()
  })
})
