import { expect, test } from "bun:test"
import { learningRate } from "./schedule.ts"

const at = (kind: "constant" | "linear" | "cosine", step: number, warmupSteps = 4, totalSteps = 14): number => learningRate({ kind, peak: 2, warmupSteps, totalSteps }, step)

test("warm-up rises to the peak in equal parts, and its first step trains", () => {
  for (const kind of ["constant", "linear", "cosine"] as const) expect([0, 1, 2, 3, 4].map((step) => at(kind, step))).toEqual([0.5, 1, 1.5, 2, 2])
})

test("constant stays, linear and cosine fall to zero and stay there", () => {
  expect(at("constant", 1000)).toBe(2)
  expect(at("linear", 9)).toBe(1)
  expect(at("cosine", 9)).toBeCloseTo(1, 12)
  expect(at("cosine", 6)).toBeCloseTo(1 + Math.cos(Math.PI / 5), 12)
  for (const kind of ["linear", "cosine"] as const) for (const step of [14, 15, 1000]) expect(at(kind, step)).toBe(0)
})

test("without warm-up the first step has the peak, also when the run is shorter than the warm-up", () => {
  expect(at("linear", 0, 0, 10)).toBe(2)
  expect(at("linear", 4, 4, 4)).toBe(2)
  expect(at("linear", 5, 4, 2)).toBe(0)
})
