import { add, concat, exp, grads, matMul, maximum, mean, mul, neg, scalar, sigmoid, slice, softmax, sub, sum, type Tensor, tensor, type Tensor2D, tidy, transpose } from "@tensorflow/tfjs-core"
import { beforeAll, describe, expect, test } from "bun:test"
import fc from "fast-check"
import type { TensorRuntime } from "./runtime.ts"
import { libraryPath, tensorflow } from "./testing/runtime.ts"

const modes = ["eager", "graph", "xla"] as const

describe.skipIf(libraryPath === undefined)("compile", () => {
  let runtime: TensorRuntime
  beforeAll(async () => {
    runtime = await tensorflow()
  })

  test("traces once for each shape and dtype", () => {
    let runs = 0
    const double = runtime.compile((x) => {
      runs++
      return [add(x!, x!)]
    }, { name: "double", mode: "graph" })
    tidy(() => {
      for (const values of [[1, 2], [3, 4], [1, 2, 3]]) expect([...double(tensor(values))[0]!.dataSync()]).toEqual(values.map((x) => 2 * x))
      expect([...double(tensor([1, 2], [2], "int32"))[0]!.dataSync()]).toEqual([2, 4])
    })
    expect(runs).toBe(3)
    expect(double.signatures()).toEqual(["1[2]", "1[3]", "3[2]"])
    double.dispose()
    expect(double.signatures()).toEqual([])
  })

  test("a captured tensor lives as long as the function, whoever disposes it", () => {
    const before = runtime.counters()
    const large = tensor(new Float32Array(5000).fill(1))
    const small = tensor([2])
    const scaled = runtime.compile((x) => [mul(mul(x!, sum(large)), small)], { name: "scaled", mode: "graph" })
    const read = (): number[] => tidy(() => [...scaled(tensor([1, 2]))[0]!.dataSync()])
    expect(read()).toEqual([10_000, 20_000])
    large.dispose()
    small.dispose()
    expect(read()).toEqual([10_000, 20_000])
    scaled.dispose()
    expect(runtime.counters()).toEqual(before)
  })

  test("an output may be an input or a captured tensor", () => {
    const constant = tensor([7])
    const same = runtime.compile((x) => [x!, constant, x!], { name: "same", mode: "graph" })
    tidy(() => expect(same(tensor([3])).map((output) => output.dataSync()[0])).toEqual([3, 7, 3]))
    same.dispose()
    constant.dispose()
  })

  test("a compiled function inside another becomes part of it", () => {
    const inner = runtime.compile((x) => [mul(x!, 3)], { name: "inner", mode: "graph" })
    const outer = runtime.compile((x) => [add(inner(x!)[0]!, 1)], { name: "outer", mode: "xla" })
    tidy(() => expect([...outer(tensor([1, 2]))[0]!.dataSync()]).toEqual([4, 7]))
    expect(inner.signatures()).toEqual([])
    outer.dispose()
    inner.dispose()
  })

  test("reading a value while tracing is explained, and the next trace works", () => {
    const before = runtime.counters()
    const bad = runtime.compile((x) => [scalar(x!.dataSync()[0]!)], { name: "peeks", mode: "graph" })
    const x = tensor([1])
    let thrown: unknown
    try {
      bad(x)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toMatchObject({
      code: "tensor_failed",
      message: "peeks: a value was read while a function was being traced",
      hint: "Inside compile() a function sees shapes, not values: move the read outside, or use tf.where.",
    })
    const good = runtime.compile((y) => [add(y!, 1)], { name: "good", mode: "graph" })
    tidy(() => expect([...good(x)[0]!.dataSync()]).toEqual([2]))
    for (const each of [good, bad]) each.dispose()
    x.dispose()
    expect(runtime.counters()).toEqual(before)
  })

  test("an error in the function, in a gradient or in an op closes the trace", () => {
    const before = runtime.counters()
    const captured = tensor(new Float32Array(5000))
    const x = tensor([[1, 2, 3]])
    captured.dataSync()
    const failing: Record<string, (x: Tensor) => Tensor> = {
      "throws itself": (y) => {
        sum(add(captured, y.size))
        throw new TypeError("not today")
      },
      "in a gradient": (y) => grads((z: Tensor) => matMul(z as Tensor2D, z as Tensor2D))([add(y, sum(captured))])[0]!,
      "in an op": (y) => runtime.raw!.matMul(y, y),
    }
    for (const [name, fn] of Object.entries(failing))
      for (const mode of ["graph", "xla"] as const) {
        const compiled = runtime.compile((y) => [fn(y!)], { name, mode })
        expect(() => compiled(x)).toThrow(name)
        compiled.dispose()
        const next = runtime.compile((y) => [neg(y!)], { name: "next", mode })
        tidy(() => expect([...next(x)[0]!.dataSync()]).toEqual([-1, -2, -3]))
        next.dispose()
      }
    captured.dispose()
    x.dispose()
    expect(runtime.counters()).toEqual(before)
  })

  test("bf16 products round, and nothing else does", () => {
    const a = tensor([[1 + 2 ** -9, 1]])
    for (const mode of modes) {
      const product = runtime.compile((x) => [matMul(x as Tensor2D, transpose(x!) as Tensor2D), mul(x!, x!)], { name: "rounds", mode, precision: "bf16" })
      tidy(() => {
        const [rounded, exact] = product(a)
        expect([...rounded!.dataSync()]).toEqual([2])
        expect(exact!.dataSync()[0]).toBe(Math.fround((1 + 2 ** -9) ** 2))
      })
      product.dispose()
    }
    a.dispose()
  })

  test("the three modes agree on random programs and leave nothing", () => {
    const steps: readonly ((x: Tensor, y: Tensor) => Tensor)[] = [
      (x, y) => add(x, y),
      (x, y) => mul(sigmoid(x), y),
      (x, y) => sub(x, mean(y, 1, true)),
      (x, y) => maximum(x, neg(y)),
      (x) => softmax(x),
      (x) => exp(neg(mul(x, x))),
      (x, y) => matMul(x as Tensor2D, y as Tensor2D),
      (x) => transpose(x),
      (x) => concat([slice(x, [0, 1], [3, 2]), slice(x, [0, 0], [3, 1])], 1),
    ]
    fc.assert(
      fc.property(fc.array(fc.nat(steps.length - 1), { minLength: 1, maxLength: 4 }), fc.boolean(), (program, differentiate) => {
        const run = (x: Tensor, y: Tensor): Tensor => program.reduce((value, step, i) => steps[step]!(value, i % 2 === 0 ? y : x), x)
        const fn = (x: Tensor, y: Tensor): Tensor[] => (differentiate ? grads((a: Tensor, b: Tensor) => sum(mul(run(a, b), add(a, b))))([x, y]) : [run(x, y)])
        const before = runtime.counters()
        const inputs = [tensor([0.1, -0.7, 0.3, 0.9, -0.2, 0.5, 0.6, -0.4, 0.8], [3, 3]), tensor([0.4, 0.2, -0.6, 0.1, 0.7, -0.3, -0.5, 0.2, 0.9], [3, 3])] as const
        const results = modes.map((mode) => {
          const compiled = runtime.compile((x, y) => fn(x!, y!), { name: "random", mode })
          const values = tidy(() => compiled(...inputs).flatMap((output) => [...output.dataSync()]))
          compiled.dispose()
          return values
        })
        for (const input of inputs) input.dispose()
        expect(runtime.counters()).toEqual(before)
        for (const other of results.slice(1)) for (const [i, value] of other.entries()) expect(Math.abs(value - results[0]![i]!)).toBeLessThan(1e-5)
      }),
      { seed: 11, numRuns: 6 },
    )
  }, 30_000)
})

test.skipIf(libraryPath === undefined)("opened twice at once, one runtime is shared and the last close ends it", async () => {
  const [one, two] = await Promise.all([tensorflow(), tensorflow()])
  const f = two.compile((x) => [add(x!, 1)], { name: "shared", mode: "graph" })
  one.close()
  one.close()
  tidy(() => expect([...f(tensor([1]))[0]!.dataSync()]).toEqual([2]))
  f.dispose()
  two.close()
})
