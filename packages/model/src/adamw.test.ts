// AdamW against numbers worked out by hand and against a plain loop in double precision.
import { afterAll, beforeAll, expect, test } from "bun:test"
import { openRuntime, type TensorRuntime } from "@cohort/tensor"
import { scalar, tensor, tidy } from "@tensorflow/tfjs-core"
import { adamW, type AdamWSettings, globalNorm } from "./adamw.ts"

let runtime: TensorRuntime
beforeAll(async () => {
  runtime = await openRuntime({ backend: "cpu" })
})
afterAll(() => runtime.close())

const settings: AdamWSettings = { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1 }

function run(parameter: number, gradients: readonly number[], decay: boolean, with_: AdamWSettings = settings): { parameter: number; first: number; second: number } {
  let state = { parameter, first: 0, second: 0 }
  gradients.forEach((gradient, i) => {
    state = tidy(() => {
      const scalars = { learningRate: scalar(0.01), correction1: scalar(1 - with_.beta1 ** (i + 1)), correction2: scalar(1 - with_.beta2 ** (i + 1)) }
      const next = adamW(tensor([state.parameter]), tensor([gradient]), tensor([state.first]), tensor([state.second]), with_, scalars, decay)
      return { parameter: next.parameter.dataSync()[0]!, first: next.first.dataSync()[0]!, second: next.second.dataSync()[0]! }
    })
  })
  return state
}

test("the first step moves by the learning rate against the sign, and decays the old value", () => {
  // 2 * (1 - 0.01 * 0.1) - 0.01
  expect(run(2, [0.5], true).parameter).toBeCloseTo(1.988, 6)
  expect(run(2, [0.5], false).parameter).toBeCloseTo(1.99, 6)
  expect(run(2, [-300], false).parameter).toBeCloseTo(2.01, 6)
  expect(run(2, [0.5], false)).toMatchObject({ first: expect.closeTo(0.05, 6), second: expect.closeTo(0.0025, 6) })
})

test("without a gradient only the decay moves", () => {
  expect(run(2, [0], true).parameter).toBeCloseTo(1.998, 6)
  expect(run(2, [0], false).parameter).toBe(2)
})

test("several steps agree with the algorithm in double precision", () => {
  const gradients = [0.3, -0.2, 0.05, 1.5, -0.7]
  let [p, m, v] = [0.7, 0, 0]
  gradients.forEach((g, i) => {
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    p = p * (1 - 0.01 * 0.1) - (0.01 * (m / (1 - 0.9 ** (i + 1)))) / (Math.sqrt(v / (1 - 0.99 ** (i + 1))) + 1e-8)
  })
  const got = run(0.7, gradients, true)
  expect(got.parameter).toBeCloseTo(p, 6)
  expect(got.first).toBeCloseTo(m, 6)
  expect(got.second).toBeCloseTo(v, 6)
})

test("the global norm is over all gradients together", () => {
  const norm = tidy(() => globalNorm([tensor([3, 0]), tensor([[4], [0]]), tensor([[12]])]).dataSync()[0])
  expect(norm).toBe(13)
})
