// Each block against a plain reference, and its gradient against central differences, on every backend.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { findRuntime, openRuntime, type TensorRuntime } from "@cohort/tensor"
import { grads, logSoftmax, mul, scalar, sum, type Tensor, tensor, tidy } from "@tensorflow/tfjs-core"
import { attention, causalMask, linear, mergeHeads, rmsNorm, rotaryTables, rotate, splitHeads, swiglu } from "./blocks.ts"
import { entropies, targetLogProbs } from "./log-probs.ts"

const lookup = findRuntime({ env: process.env })
const sizeOf = (shape: readonly number[]): number => shape.reduce((product, dim) => product * dim, 1)

/** Values in [-1, 1) that differ from each other. */
function values(count: number, from: number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => 2 * (((i + from) * 0.6180339887) % 1) - 1)
}

interface Case {
  readonly name: string
  readonly shapes: readonly (readonly number[])[]
  readonly fn: (runtime: TensorRuntime, ...inputs: Tensor[]) => Tensor
}

const positions = (): Tensor => tensor([0, 1, 2, 3, 0, 1, 5, 9], [2, 4], "int32")
const tables = (): [Tensor, Tensor] => rotaryTables(positions(), tensor([1, 0.3]))
const targets = (): Tensor => tensor([1, 0, 4], [3], "int32")

const cases: readonly Case[] = [
  { name: "rmsNorm of a matrix", shapes: [[3, 6], [6]], fn: (_, x, gain) => rmsNorm(x!, gain!, 1e-5) },
  { name: "rmsNorm of heads", shapes: [[2, 2, 3, 4], [4]], fn: (_, x, gain) => rmsNorm(x!, gain!, 1e-5) },
  { name: "rotate", shapes: [[2, 3, 4, 4]], fn: (_, x) => rotate(x!, ...tables()) },
  { name: "swiglu", shapes: [[3, 8]], fn: (_, x) => swiglu(x!) },
  { name: "splitHeads, q", shapes: [[6, 16]], fn: (_, x) => splitHeads(x!, 2, 2, 1, 4)[0] },
  { name: "splitHeads, v", shapes: [[6, 16]], fn: (_, x) => splitHeads(x!, 2, 2, 1, 4)[2] },
  { name: "splitHeads, all parts", shapes: [[6, 16]], fn: (_, x) => { const [q, k, v] = splitHeads(x!, 2, 2, 1, 4); return mul(mul(q, k), v) } },
  { name: "mergeHeads", shapes: [[2, 3, 4, 2]], fn: (_, x) => mergeHeads(x!) },
  { name: "attention, grouped heads", shapes: [[2, 4, 3, 2], [2, 2, 3, 2], [2, 2, 3, 2]], fn: (_, q, k, v) => attention(q!, k!, v!, causalMask(3)) },
  { name: "attention, one head", shapes: [[1, 1, 4, 2], [1, 1, 4, 2], [1, 1, 4, 2]], fn: (_, q, k, v) => attention(q!, k!, v!, causalMask(4)) },
  { name: "linear with a bias", shapes: [[3, 4], [5, 4], [5]], fn: (_, x, weight, bias) => linear(x!, weight!, bias) },
  { name: "targetLogProbs at temperature 0.7", shapes: [[3, 5]], fn: ({ raw }, x) => targetLogProbs(raw, x!, targets(), scalar(0.7)) },
  { name: "entropies", shapes: [[3, 5]], fn: (_, x) => entropies(x!, scalar(1.3)) },
]

for (const backend of ["cpu", "wasm", "tensorflow"] as const)
  describe.skipIf(backend === "tensorflow" && lookup.status !== "found")(`on ${backend}`, () => {
    let runtime: TensorRuntime
    beforeAll(async () => {
      runtime = await openRuntime({ backend, libraryPath: lookup.status === "found" ? lookup.runtime.libraryPath : undefined, threads: 2 })
    })
    afterAll(() => runtime.close())

    test.each(cases)("gradient of $name", ({ shapes, fn }) => {
      const inputs = shapes.map((shape, i) => values(sizeOf(shape), 7 * i + 1))
      const loss = (...tensors: Tensor[]): Tensor => {
        const out = fn(runtime, ...tensors)
        // Weights that differ, so that errors which cancel in a plain sum show.
        return sum(mul(out, tensor(values(out.size, 3), out.shape)))
      }
      const open = (arrays: readonly Float32Array[]): Tensor[] => arrays.map((array, i) => tensor(array.slice(), [...shapes[i]!]))
      const analytic = tidy(() => grads(loss as (...tensors: Tensor[]) => Tensor)(open(inputs)).map((gradient) => gradient.dataSync().slice()))
      const at = (arrays: readonly Float32Array[]): number => tidy(() => loss(...open(arrays)).dataSync()[0]!)
      const step = 1e-2
      inputs.forEach((input, which) => {
        for (let i = 0; i < input.length; i++) {
          const moved = (by: number): number => at(inputs.map((array, j) => (j === which ? array.map((value, k) => (k === i ? value + by : value)) : array)))
          // Fourth-order central difference: float32 leaves no room for a smaller step.
          const numeric = (8 * (moved(step) - moved(-step)) - (moved(2 * step) - moved(-2 * step))) / (12 * step)
          expect(Math.abs(analytic[which]![i]! - numeric), `input ${which}, element ${i}`).toBeLessThan(2e-3 * Math.max(1, Math.abs(numeric)))
        }
      })
    })

    test("attention hides later tokens, and gives each query head the key head of its group", () => {
      const [rows, heads, kvHeads, length, size] = [1, 4, 2, 3, 2]
      const [q, k, v] = [values(heads * length * size, 1), values(kvHeads * length * size, 5), values(kvHeads * length * size, 9)]
      const got = tidy(() => attention(tensor(q, [rows, heads, length, size]), tensor(k, [rows, kvHeads, length, size]), tensor(v, [rows, kvHeads, length, size]), causalMask(length)).dataSync())
      for (let head = 0; head < heads; head++)
        for (let t = 0; t < length; t++) {
          const shared = Math.floor(head / 2)
          const scores = Array.from({ length: t + 1 }, (_, s) => Math.exp([0, 1].reduce((dot, d) => dot + q[(head * length + t) * size + d]! * k[(shared * length + s) * size + d]!, 0) / Math.sqrt(size)))
          const total = scores.reduce((a, b) => a + b)
          for (let d = 0; d < size; d++) {
            const wanted = scores.reduce((mixed, weight, s) => mixed + (weight / total) * v[(shared * length + s) * size + d]!, 0)
            expect(got[(head * length + t) * size + d]!).toBeCloseTo(wanted, 5)
          }
        }
    })

    test("rotate turns by the position and keeps lengths; differences of positions are all that counts", () => {
      const x = tensor(values(2 * 4 * 4, 2), [2, 1, 4, 4])
      const turned = tidy(() => rotate(x, ...tables()).dataSync())
      const flat = x.dataSync()
      expect(turned.slice(0, 4)).toEqual(flat.slice(0, 4))
      for (let row = 0; row < 8; row++) {
        const length = (from: ArrayLike<number>): number => Math.hypot(...Array.from({ length: 4 }, (_, i) => from[4 * row + i]!))
        expect(length(turned)).toBeCloseTo(length(flat), 5)
      }
      // Row 1, last token: position 9, pairs (0, 2) and (1, 3).
      const [a, b] = [flat[28]!, flat[30]!]
      expect(turned[28]!).toBeCloseTo(a * Math.cos(9) - b * Math.sin(9), 5)
      expect(turned[30]!).toBeCloseTo(b * Math.cos(9) + a * Math.sin(9), 5)
      x.dispose()
    })

    test("targetLogProbs is the log-softmax at the target, far logits included", () => {
      const rows = [[0, 0, 0, 0, 0], [100, -100, 0, 50, 99], [1, 2, 3, 4, 5]]
      const got = tidy(() => targetLogProbs(runtime.raw, tensor(rows.flat(), [3, 5]), targets(), scalar(2)).dataSync())
      const wanted = tidy(() => logSoftmax(tensor(rows.map((row) => row.map((value) => value / 2)))).arraySync() as number[][])
      for (const [row, target] of [1, 0, 4].entries()) expect(got[row]!).toBeCloseTo(wanted[row]![target]!, 4)
    })

    test("a compiled training function of all blocks leaves no tensor behind", () => {
      const run = runtime.compile((x, gain) => {
        const gradient = grads((a: Tensor, g: Tensor) => {
          const [q, k, v] = splitHeads(rmsNorm(a, g, 1e-5), 2, 2, 1, 4)
          return sum(mergeHeads(attention(rotate(q, ...tablesOf3()), rotate(k, ...tablesOf3()), v, causalMask(3))))
        })
        return gradient([x!, gain!])
      }, { name: "blocks", mode: "graph" })
      const x = tensor(values(6 * 16, 1), [6, 16])
      const gain = tensor(values(16, 2))
      const once = (): void => {
        for (const out of run(x, gain)) {
          expect(out.dataSync().every(Number.isFinite)).toBe(true)
          out.dispose()
        }
      }
      once()
      const before = runtime.counters().tensors
      once()
      once()
      expect(runtime.counters().tensors).toBe(before)
      run.dispose()
      x.dispose()
      gain.dispose()
    })
  })

function tablesOf3(): [Tensor, Tensor] {
  return rotaryTables(tensor([0, 1, 2, 0, 1, 2], [2, 3], "int32"), tensor([1, 0.3]))
}
