import { expect, test } from "bun:test"
import { repetitionOf } from "./group-samples.ts"

test("repetition is the share of 4-grams that occurred before", () => {
  expect(repetitionOf(Int32Array.of(1, 2, 3, 4, 5, 6, 7))).toBe(0)
  expect(repetitionOf(Int32Array.from({ length: 103 }, () => 9))).toBe(0.99)
  // 1 2 3 4 | 1 2 3 4: the grams are 1234 2341 3412 4123 1234.
  expect(repetitionOf(Int32Array.of(1, 2, 3, 4, 1, 2, 3, 4))).toBeCloseTo(1 / 5)
  expect(repetitionOf(Int32Array.of(1, 1, 1, 1))).toBe(0)
})
