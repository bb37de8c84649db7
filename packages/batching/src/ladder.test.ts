import { expect, test } from "bun:test"
import fc from "fast-check"
import { bucketLadder } from "./ladder.ts"

test("ascending lengths, few shapes, each within the budget and the last one reaching the longest sample", () => {
  const options = fc.record({ maxLength: fc.integer({ min: 1, max: 40_000 }), tokenBudget: fc.integer({ min: 1, max: 70_000 }) })
  fc.assert(
    fc.property(options, ({ maxLength, tokenBudget }) => {
      const shapes = bucketLadder({ maxLength, tokenBudget })
      expect(shapes.length).toBeLessThanOrEqual(8)
      expect(shapes.at(-1)!.length).toBeGreaterThanOrEqual(Math.min(maxLength - 1, tokenBudget))
      for (const [index, { rows, length }] of shapes.entries()) {
        expect(rows * length).toBeLessThanOrEqual(tokenBudget)
        expect(rows).toBeGreaterThanOrEqual(1)
        expect(length).toBeGreaterThan(shapes[index - 1]?.length ?? 0)
      }
    }),
    { seed: 5, numRuns: 200 },
  )
})

test("short uniform work needs one shape, and no more rows than a step has samples", () => {
  expect(bucketLadder({ maxLength: 16, tokenBudget: 16384, samplesPerStep: 256 })).toEqual([{ rows: 256, length: 16 }])
})

test("a fixed number of rows ignores length, so nothing up to maxLength is dropped", () => {
  const shapes = bucketLadder({ maxLength: 14, rowsPerBatch: 4, minLength: 8 })
  expect(shapes).toEqual([{ rows: 4, length: 8 }, { rows: 4, length: 12 }, { rows: 4, length: 16 }])
})

test("the last token of the longest sample needs no room", () => {
  expect(bucketLadder({ maxLength: 33, tokenBudget: 64, minLength: 32 })).toEqual([{ rows: 2, length: 32 }])
  expect(bucketLadder({ maxLength: 34, tokenBudget: 66, minLength: 36 })).toEqual([{ rows: 1, length: 36 }])
  expect(bucketLadder({ maxLength: 300, tokenBudget: 4000, maxShapes: 1 })[0]!.length).toBe(304)
  expect(bucketLadder({ maxLength: 1, tokenBudget: 8 })[0]!.length).toBe(4)
})

test("limits that contradict or are not whole numbers are refused by name", () => {
  expect(() => bucketLadder({ maxLength: 9 })).toThrow("exactly one of tokenBudget and rowsPerBatch")
  expect(() => bucketLadder({ maxLength: 9, tokenBudget: 4, rowsPerBatch: 4 })).toThrow("exactly one")
  expect(() => bucketLadder({ maxLength: 9, tokenBudget: 0 })).toThrow("tokenBudget is 0")
  expect(() => bucketLadder({ maxLength: 1.5, tokenBudget: 8 })).toThrow("maxLength is 1.5")
})
