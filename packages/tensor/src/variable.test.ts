import { add, mul, scalar, type Tensor, tensor, tidy } from "@tensorflow/tfjs-core"
import { beforeAll, describe, expect, test } from "bun:test"
import { fromBfloat16, toBfloat16 } from "./bfloat16.ts"
import type { TensorRuntime } from "./runtime.ts"
import { openRuntime } from "./open.ts"
import { libraryPath, tensorflow } from "./testing/runtime.ts"

for (const backend of ["cpu", "tensorflow"] as const)
  describe.skipIf(backend === "tensorflow" && libraryPath === undefined)(`variables on ${backend}`, () => {
    let runtime: TensorRuntime
    beforeAll(async () => {
      runtime = backend === "cpu" ? await openRuntime({ backend }) : await tensorflow()
    })
    const modes = backend === "cpu" ? (["eager"] as const) : (["eager", "graph", "xla"] as const)

    for (const mode of modes) {
      test(`${mode}: an assigned value is there after the call, and within it from then on`, () => {
        const before = runtime.counters()
        const counter = runtime.variable("counter", [2], "f32", new Float32Array([1, 2]))
        const step = runtime.compile((x) => {
          const old = counter.value()
          counter.assign(add(old, x!))
          const once = counter.value()
          counter.assign(mul(once, scalar(10)))
          return [old, once, counter.value()]
        }, { name: "step", mode })
        const read = (): number[][] => tidy(() => step(tensor([1, 1])).map((output) => [...output.dataSync()]))
        expect(read()).toEqual([[1, 2], [2, 3], [20, 30]])
        expect([...counter.data()]).toEqual([20, 30])
        expect(read()[0]).toEqual([20, 30])
        expect([...counter.data()]).toEqual([210, 310])
        step.dispose()
        counter.dispose()
        expect(runtime.counters()).toEqual(before)
      })

      test(`${mode}: what was read before an assignment stays the old value`, () => {
        const a = runtime.variable("a", [], "f32", new Float32Array([3]))
        const b = runtime.variable("b", [], "f32", new Float32Array([5]))
        // A swap: each store must wait for both reads.
        const swap = runtime.compile(() => {
          const [oldA, oldB] = [a.value(), b.value()]
          a.assign(oldB)
          b.assign(oldA)
          return [add(oldA, mul(oldB, scalar(10)))]
        }, { name: "swap", mode })
        for (const expected of [53, 35, 53, 35]) expect(tidy(() => swap()[0]!.dataSync()[0])).toBe(expected)
        expect([a.data()[0], b.data()[0]]).toEqual([3, 5])
        swap.dispose()
        for (const variable of [a, b]) variable.dispose()
      })

      test(`${mode}: a bf16 variable is loaded, read, assigned`, () => {
        const values = new Float32Array([1, -2.5, 3.140625])
        const variable = runtime.variable("half", [3], "bf16", toBfloat16(values))
        const wide = (x: Tensor): Tensor => (runtime.raw === undefined ? x : runtime.raw.cast(x, 1))
        const narrow = (x: Tensor): Tensor => (runtime.raw === undefined ? x : runtime.raw.cast(x, 14))
        const step = runtime.compile(() => {
          const next = mul(wide(variable.value()), scalar(2))
          variable.assign(narrow(next))
          return [next]
        }, { name: "half step", mode })
        tidy(() => expect([...step()[0]!.dataSync()]).toEqual([2, -5, 6.28125]))
        const data = variable.data()
        expect([...(data instanceof Uint16Array ? fromBfloat16(data) : (data as Float32Array))]).toEqual([2, -5, 6.28125])
        step.dispose()
        variable.dispose()
      })
    }

    test("outside a function: load, assign, value, data; two of one name are two", () => {
      const before = runtime.counters()
      const [one, two] = [runtime.variable("same", [2], "i32", new Int32Array([1, 2])), runtime.variable("same", [2], "i32", new Int32Array([3, 4]))]
      one.load(new Int32Array([5, 6]))
      tidy(() => {
        two.assign(add(two.value(), scalar(1, "int32")))
        expect([...one.value().dataSync()]).toEqual([5, 6])
      })
      expect([...one.data(), ...two.data()]).toEqual([5, 6, 4, 5])
      for (const variable of [one, two]) variable.dispose()
      expect(runtime.counters()).toEqual(before)
    })

    test("data is a copy", () => {
      const variable = runtime.variable("copied", [1], "f32", new Float32Array([1]))
      ;(variable.data() as Float32Array)[0] = 9
      expect(variable.data()[0]).toBe(1)
      variable.dispose()
    })

    test("parts are loaded one after the other, and the value is shown as it is or rounded", () => {
      const variable = runtime.variable("parts", [2, 2], "f32", new Float32Array(4))
      const values = Float32Array.of(1, -2.5, 3.3, 1e-3)
      variable.load([values.subarray(0, 1), values.subarray(1)])
      const shown = (type: "f32" | "bf16"): Uint8Array => {
        let copy = new Uint8Array(0)
        variable.withBytes(type, (bytes) => (copy = bytes.slice()))
        return copy
      }
      expect(new Float32Array(shown("f32").buffer)).toEqual(values)
      expect([...new Uint16Array(shown("bf16").buffer)]).toEqual([...toBfloat16(values)])
      expect(() => variable.withBytes("f32", () => { throw new Error("full") })).toThrow("full")
      variable.dispose()
      const halves = runtime.variable("half parts", [3], "bf16", new Uint16Array(3))
      halves.load([toBfloat16(Float32Array.of(1)), toBfloat16(Float32Array.of(2, 3))])
      expect([...tidy(() => (runtime.raw === undefined ? halves.value() : runtime.raw.cast(halves.value(), 1)).dataSync())]).toEqual([1, 2, 3])
      halves.dispose()
    })
  })

test("bf16 rounds to nearest even and keeps NaN", () => {
  expect([...fromBfloat16(toBfloat16(new Float32Array([1 + 2 ** -8, 1 + 3 * 2 ** -8, -0, Infinity])))]).toEqual([1, 1 + 4 * 2 ** -8, -0, Infinity])
  expect(fromBfloat16(toBfloat16(new Float32Array([NaN])))[0]).toBeNaN()
})
