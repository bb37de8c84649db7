import { add, gather, grads, less, matMul, mul, reshape, scalar, sigmoid, sum, type Tensor, tensor, type Tensor2D, tidy } from "@tensorflow/tfjs-core"
import { beforeAll, describe, expect, test } from "bun:test"
import type { TensorRuntime } from "./runtime.ts"
import { libraryPath, tensorflow } from "./testing/runtime.ts"

const large = 5000

describe.skipIf(libraryPath === undefined)("inside a compiled function", () => {
  let runtime: TensorRuntime
  beforeAll(async () => {
    runtime = await tensorflow()
  })

  /** Runs `fn` in each mode and gives its values; checks that nothing is left behind. */
  function inEachMode(fn: (...inputs: Tensor[]) => Tensor[], inputs: readonly Tensor[]): number[][][] {
    return (["eager", "graph", "xla"] as const).map((mode) => {
      // The first use of a host tensor uploads it.
      tidy(() => fn(...inputs))
      const before = runtime.counters()
      const compiled = runtime.compile(fn, { name: "test", mode })
      const values = tidy(() => {
        compiled(...inputs)
        return compiled(...inputs).map((output) => [...output.dataSync()])
      })
      compiled.dispose()
      expect(runtime.counters()).toEqual(before)
      return values
    })
  }

  test("a loop runs until its condition says no", () => {
    const [start, zero] = [scalar(3, "int32"), scalar(0, "int32")]
    start.dataSync()
    for (const values of inEachMode((n, total) => runtime.whileLoop!((i) => less(i, scalar(10, "int32")), (i, t) => [add(i, scalar(1, "int32")), add(t, i)], [n!, total!]), [start, zero]))
      expect(values).toEqual([[10], [42]])
  })

  test("condition and body take what they use of the scope around them", () => {
    const bound = tensor(new Float32Array(large).fill(0.001))
    const step = tensor(new Float32Array(large).fill(2))
    const table = runtime.variable("loop.table", [2], "f32", new Float32Array([3, 4]))
    const x = scalar(1)
    const results = inEachMode(
      (value) => {
        // `offset` is a node of this trace, `bound` and `step` are tensors outside of it, the table is a variable.
        const offset = mul(value!, scalar(0.5))
        return runtime.whileLoop!((v) => less(v, add(sum(bound), offset)), (v) => [add(add(v, mul(sum(step), scalar(0.0001))), sum(table.value()))], [value!])
      },
      [x],
    )
    for (const values of results) {
      expect(values[0]![0]).toBeCloseTo(9, 3)
      expect(values.length).toBe(1)
    }
    table.dispose()
  })

  test("a loop sees what was assigned to a variable before it", () => {
    const variable = runtime.variable("loop.assigned", [], "f32", new Float32Array([1]))
    const compiled = runtime.compile(
      (x) => {
        variable.assign(mul(variable.value(), scalar(10)))
        return runtime.whileLoop!((v) => less(v, scalar(25)), (v) => [add(v, variable.value())], [x!])
      },
      { name: "assigned", mode: "xla" },
    )
    const [out] = compiled(scalar(0))
    expect(out!.dataSync()[0]).toBe(30)
    expect([...variable.data()]).toEqual([10])
    compiled.dispose()
    variable.dispose()
  })

  test("a body that changes a shape is refused in words", () => {
    const compiled = runtime.compile((x) => runtime.whileLoop!((v) => less(sum(v), scalar(3)), (v) => [reshape(v, [2])], [x!]), { name: "grows" })
    expect(() => compiled(tensor([1, 2], [1, 2]))).toThrow("grows: whileLoop: the body returns (1[2]) for a state of (1[1,2])")
    // The trace that failed left nothing open.
    const next = runtime.compile((x) => [add(x!, x!)], { name: "next" })
    expect([...next(scalar(2))[0]!.dataSync()]).toEqual([4])
    next.dispose()
  })

  test("a cluster is traced once for each signature and used by every call", () => {
    let runs = 0
    const weights = [tensor(new Float32Array(9).fill(0.1), [3, 3]), tensor(new Float32Array(9).fill(0.2), [3, 3])]
    const outside = tensor(new Float32Array(large).fill(1 / large))
    const silu = runtime.cluster!((x) => {
      runs++
      return [mul(x!, sigmoid(mul(x!, sum(outside))))]
    })
    const [eager, graph, xla] = inEachMode(
      (x) => {
        let h = x!
        for (const w of weights) h = silu(matMul(h as Tensor2D, w as Tensor2D))[0]!
        return [h, silu(sum(h))[0]!]
      },
      [tensor([1, 2, 3, 4, 5, 6], [2, 3])],
    )
    // Eager: 3 calls to warm up each mode and 2 of the eager mode; traced: one per signature and mode.
    expect(runs).toBe(3 * 3 + 2 * 3 + 2 + 2)
    for (const other of [graph, xla])
      for (const [i, values] of other!.entries()) for (const [k, value] of values.entries()) expect(value).toBeCloseTo(eager![i]![k]!, 5)
  })

  test("a cluster inside a loop, and a loop inside a cluster", () => {
    const half = runtime.cluster!((x) => [mul(x!, scalar(0.5))])
    const loop = runtime.cluster!((x) => runtime.whileLoop!((v) => less(scalar(1), v), (v) => half(v), [x!]))
    for (const values of inEachMode((x) => [...runtime.whileLoop!((v) => less(scalar(1), v), (v) => half(v), [x!]), ...loop(x!)], [scalar(13)]))
      expect(values).toEqual([[0.8125], [0.8125]])
  })

  test("the gradient of a cluster is traced once too, and right", () => {
    let runs = 0
    const table = tensor([0.5, 2, 1])
    const block = runtime.cluster!((x, w, scale, index) => {
      runs++
      const h = mul(mul(x!, sigmoid(matMul(x as Tensor2D, w as Tensor2D))), scale!)
      return [add(h, gather(table, index!)), mul(h, h), index!]
    }, "block", [2])
    const inputs = [tensor([0.1, -0.7, 0.3, 0.9, -0.2, 0.5], [2, 3]), tensor([0.4, 0.2, -0.6, 0.1, 0.7, -0.3, -0.5, 0.2, 0.9], [3, 3]), tensor([1, 2, 3]), tensor([2, 0, 1], [3], "int32")]
    const [eager, graph, xla] = inEachMode((x, w, scale, index) => {
      // Two layers: the second takes both float outputs of the first; the last square is not used at all.
      const loss = (a: Tensor, b: Tensor): Tensor => {
        const [one, square] = block(a, b, scale!, index!)
        return sum(block(add(one!, square!), b, scale!, index!)[0]!)
      }
      return grads(loss)([x!, w!])
    }, inputs)
    // Each mode warms up with 2 calls and the eager one makes 4 more; traced: forward once and backward once.
    expect(runs).toBe(3 * 2 + 4 + 2 * 2)
    for (const other of [graph, xla])
      for (const [i, values] of other!.entries()) for (const [k, value] of values.entries()) expect(value).toBeCloseTo(eager![i]![k]!, 4)
  })

  test("an input that a cluster does not use has gradient zero, a constant none", () => {
    const pick = runtime.cluster!((x, _unused, c) => [mul(x!, c!)], "pick", [2])
    const x = [tensor([1, 2]), tensor([3, 4]), tensor([5, 6])]
    const zero = runtime.compile((a, b, c) => grads((p: Tensor, q: Tensor) => sum(pick(p, q, c!)[0]!))([a!, b!]), { name: "zero", mode: "graph" })
    tidy(() => expect(zero(...x).map((g) => [...g.dataSync()])).toEqual([[5, 6], [0, 0]]))
    const none = runtime.compile((a, b, c) => grads((r: Tensor) => sum(pick(a!, b!, r)[0]!))([c!]), { name: "none", mode: "graph" })
    expect(() => none(...x)).toThrow(/none: Cannot (backprop|compute)/)
    for (const each of [zero, none]) each.dispose()
    for (const each of x) each.dispose()
  })

  test("a weight that a cluster does not take as an argument is refused under a gradient, not forgotten", () => {
    const weight = runtime.variable("cluster.weight", [2], "f32", new Float32Array([1, 2]))
    const hidden = runtime.cluster!((x) => [mul(x!, weight.value())], "hidden")
    const compiled = runtime.compile((x) => grads((v: Tensor) => sum(hidden(v)[0]!))([x!]), { name: "outer", mode: "graph" })
    const x = tensor([1, 1])
    expect(() => compiled(x)).toThrow("outer: hidden uses 1 value of the function around it, which would get no gradient")
    const forward = runtime.compile((v) => hidden(v!), { name: "forward", mode: "graph" })
    tidy(() => expect([...forward(x)[0]!.dataSync()]).toEqual([1, 2]))
    for (const each of [compiled, forward, weight, x]) each.dispose()
  })

  test("an assignment inside a cluster is refused", () => {
    const variable = runtime.variable("cluster.assigned", [], "f32", new Float32Array([1]))
    const bad = runtime.cluster!((x) => {
      variable.assign(x!)
      return [x!]
    }, "bad")
    const before = runtime.counters()
    const compiled = runtime.compile((x) => bad(x!), { name: "outer", mode: "graph" })
    const x = scalar(2)
    expect(() => compiled(x)).toThrow("outer: bad: a variable was assigned inside a cluster or a loop")
    x.dispose()
    expect(runtime.counters()).toEqual(before)
    variable.dispose()
  })

  test("lanes run side by side and give each body's own results", () => {
    const square = runtime.compile((x) => [sum(mul(x!, x!))], { name: "square", mode: "graph" })
    const inputs = [1, 2, 3].map((value) => tensor(new Float32Array(large).fill(value)))
    // The first use of a host tensor uploads it.
    tidy(() => inputs.forEach((x) => square(x)))
    const before = runtime.counters()
    const values = tidy(() => runtime.lanes!(inputs.map((x) => () => square(x)[0]!)).map((total) => total.dataSync()[0]))
    expect(values).toEqual([large, 4 * large, 9 * large])
    expect(runtime.counters()).toEqual(before)
    square.dispose()
  })

  test("what fails in a lane is thrown once, and the lane works again", () => {
    const { raw } = runtime
    const pick = runtime.compile((x, at) => [raw!.gather(x!, at!)], { name: "pick", mode: "graph" })
    const x = tensor([1, 2, 3])
    const run = (...places: number[]) => tidy(() => runtime.lanes!(places.map((place) => () => pick(x, scalar(place, "int32"))[0]!)).map((value) => value.dataSync()[0]))
    expect(() => run(0, 7)).toThrow("7")
    expect(run(0, 2)).toEqual([1, 3])
    pick.dispose()
  })

  test("a packed product equals a plain one, and sees new weights once its kernels are forgotten", () => {
    const { raw } = runtime
    const weight = runtime.variable("packed.weight", [48, 32], "f32", Float32Array.from({ length: 48 * 32 }, (_, i) => Math.sin(i)))
    const x = tensor(Float32Array.from({ length: 5 * 32 }, (_, i) => Math.cos(i)), [5, 32])
    const packed = runtime.compile((x) => [raw!.packedMatMul(x!, weight.value())], { name: "packed", mode: "graph" })
    const plain = () => [...tidy(() => matMul(x as Tensor2D, weight.value() as Tensor2D, false, true).dataSync())]
    const values = () => [...tidy(() => packed(x)[0]!.dataSync())]
    const before = plain()
    values().forEach((value, i) => expect(value).toBeCloseTo(before[i]!, 4))
    weight.load(new Float32Array(48 * 32).fill(0.5))
    packed.forgetKernels()
    const after = plain()
    values().forEach((value, i) => expect(value).toBeCloseTo(after[i]!, 4))
    packed.dispose()
    weight.dispose()
  })
})
