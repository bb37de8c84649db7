import { expect, test } from "bun:test"
import fc from "fast-check"
import { balanceBySquares } from "./balance.ts"
import { sampleOf } from "../test/samples.ts"

const lengthsOf = (lengths: readonly number[], parts: number, maxPerPart?: number) =>
  balanceBySquares(lengths.map((length) => sampleOf(length)), parts, maxPerPart).map((part) => part.map(({ tokenIds }) => tokenIds.length))

test("equal loads where they exist, squared length over count", () => {
  expect(lengthsOf([3, 3, 2, 2], 2)).toEqual([[3, 2], [3, 2]])
  expect(lengthsOf([1, 2, 3, 4], 2)).toEqual([[4], [3, 2, 1]])
})

test("a full part takes no more, though it is the lightest", () => {
  expect(lengthsOf([9, 1, 1, 1], 2, 2)).toEqual([[9, 1], [1, 1]])
  expect(() => lengthsOf([1, 1, 1], 1, 2)).toThrow("3 samples do not fit 1 parts of 2")
})

test("no part is empty, the spread of loads is at most one longest sample", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 4, maxLength: 60 }), fc.integer({ min: 1, max: 4 }), (lengths, parts) => {
      const split = lengthsOf(lengths, parts)
      const loads = split.map((part) => part.reduce((sum, length) => sum + length ** 2, 0))
      expect(Math.min(...split.map((part) => part.length))).toBeGreaterThan(0)
      expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(Math.max(...lengths) ** 2)
      expect(split.flat().toSorted()).toEqual(lengths.toSorted())
    }),
    { seed: 3, numRuns: 100 },
  )
})
