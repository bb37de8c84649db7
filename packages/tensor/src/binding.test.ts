import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createBinding } from "./binding.ts"
import { DType } from "./dtype.ts"
import { openLibrary } from "./library.ts"
import { attr } from "./raw.ts"
import { libraryPath } from "./testing/runtime.ts"

describe.skipIf(libraryPath === undefined)("the binding", () => {
  let binding: ReturnType<typeof createBinding>
  beforeAll(() => {
    binding = createBinding(openLibrary(libraryPath!), { intraOpThreads: 2, interOpThreads: 1 })
  })
  afterAll(() => binding.close())

  test("gives back what it was given, in every dtype, and keeps no reference", () => {
    const cases = [
      [DType.float32, new Float32Array([1.5, -0, NaN, Infinity])],
      [DType.int32, new Int32Array([1, -2, 2 ** 31 - 1, -(2 ** 31)])],
      [DType.bool, new Uint8Array([1, 0, 1, 1])],
      [DType.bfloat16, new Uint16Array([0x3f80, 0x8000, 0x7f80, 1])],
      [DType.int64, new BigInt64Array([1n, -1n, 2n ** 62n, 0n])],
    ] as const
    for (const [dtype, values] of cases) {
      const given = values.slice()
      const id = binding.createTensor([2, 2], dtype, given)
      new Uint8Array(given.buffer).fill(0)
      const got = binding.tensorDataSync(id)
      expect(got.constructor).toBe(values.constructor)
      // By bytes, so that -0 and NaN count.
      expect(Buffer.from(got.buffer).toString("hex")).toBe(Buffer.from(values.buffer).toString("hex"))
      binding.deleteTensor(id)
    }
    expect(binding.counters()).toEqual({ tensors: 0, bytes: 0 })
  })

  test("takes empty tensors and scalars", () => {
    for (const shape of [[0], [3, 0, 2], []]) {
      const values = new Float32Array(shape.length === 0 ? 1 : 0)
      const id = binding.createTensor(shape, DType.float32, values)
      expect(binding.tensorDataSync(id)).toEqual(values)
      binding.deleteTensor(id)
    }
  })

  test("says how many bytes a shape needs", () => {
    expect(() => binding.createTensor([2, 3], DType.float32, new Float32Array(5))).toThrow("a tensor of shape [2, 3] needs 24 bytes, 20 given")
    expect(() => binding.createTensor([2, 3], DType.bool, new Uint8Array(5))).toThrow("a tensor of shape [2, 3] needs 6 bytes, 5 given")
  })

  test("passes on what TensorFlow says of wrong shapes, and still works", () => {
    const a = binding.createTensor([2, 3], DType.float32, new Float32Array(6))
    const b = binding.createTensor([2, 2], DType.float32, new Float32Array(4))
    const attributes = [attr.type("T", DType.float32), attr.bool("transpose_a", false), attr.bool("transpose_b", false)]
    expect(() => binding.executeOp("MatMul", attributes, [a, b], 1)).toThrow(/MatMul: .*(In\[0\]|Matrix size-incompatible)/)
    expect(() => binding.executeOp("NoSuchOp", [], [a], 1)).toThrow("NoSuchOp")
    const [product] = binding.executeOp("MatMul", attributes, [b, a], 1)
    expect(product!.shape).toEqual([2, 3])
    for (const id of [a, b, product!.id]) binding.deleteTensor(id)
    expect(binding.counters()).toEqual({ tensors: 0, bytes: 0 })
  })

  test("names a tensor that is gone", () => {
    const id = binding.createTensor([1], DType.float32, new Float32Array(1))
    binding.deleteTensor(id)
    expect(() => binding.tensorDataSync(id)).toThrow(`tensor ${id} is disposed`)
    expect(() => binding.deleteTensor(id)).toThrow(`tensor ${id} is disposed`)
  })

  test("the memory of the process stays, however much goes through", () => {
    const values = new Float32Array(65_536)
    const through = (times: number): void => {
      for (let i = 0; i < times; i++) {
        const id = binding.createTensor([65_536], DType.float32, values)
        binding.tensorDataSync(id)
        binding.deleteTensor(id)
      }
    }
    through(500)
    Bun.gc(true)
    const before = process.memoryUsage.rss()
    // 2,000 calls move a gigabyte in all.
    through(2000)
    Bun.gc(true)
    expect((process.memoryUsage.rss() - before) / 1e6).toBeLessThan(60)
  })
})
