import { expect, test } from "bun:test"
import fc from "fast-check"
import { batchMetricDefinitions } from "./definitions.ts"
import { workerRows } from "./worker-rows.ts"

const sized = (length: number) => ({ tokenIds: { length } })
const lengthsOf = (plan: ReturnType<typeof workerRows>) => plan.batches.map((batch) => batch.map((row) => row.map(({ tokenIds }) => tokenIds.length)))

test("equal cost for every worker: squared length over count", () => {
  expect(lengthsOf(workerRows([3, 3, 2, 2].map(sized), { workers: 2, tokenBudget: 8 }))).toEqual([[[3, 2], [3, 2]]])
  expect(lengthsOf(workerRows([1, 2, 3, 4].map(sized), { workers: 2, tokenBudget: 8 }))).toEqual([[[4], [3, 2, 1]]])
})

test("fixed counts, and samples over the budget", () => {
  expect(lengthsOf(workerRows([5, 5, 5, 5].map(sized), { workers: 2, samplesPerRow: 1 }))).toEqual([[[5], [5]], [[5], [5]]])
  const { droppedOverBudget, batches } = workerRows([12, 3, 3].map(sized), { workers: 2, tokenBudget: 8 })
  expect(droppedOverBudget.map(({ tokenIds }) => tokenIds.length)).toEqual([12])
  expect(batches).toHaveLength(1)
  expect(workerRows([], { workers: 2, tokenBudget: 8 })).toMatchObject({ batches: [], imbalance: 1 })
  expect(() => workerRows([], { workers: 2 })).toThrow("exactly one of tokenBudget and samplesPerRow")
  expect(() => workerRows([], { workers: 0, tokenBudget: 8 })).toThrow("workers is 0")
})

test("every row within budget, every sample once, no worker without a row", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 120 }), { minLength: 4, maxLength: 200 }), fc.integer({ min: 1, max: 4 }), (lengths, workers) => {
      const { batches, droppedOverBudget } = workerRows(lengths.map(sized), { workers, tokenBudget: 100 })
      const placed = [...batches.flat(2), ...droppedOverBudget].map(({ tokenIds }) => tokenIds.length)
      expect(placed.toSorted()).toEqual(lengths.toSorted())
      const fits = lengths.filter((length) => length <= 100).length
      for (const batch of batches) {
        expect(batch).toHaveLength(workers)
        for (const row of batch) {
          if (fits >= workers * batches.length) expect(row.length).toBeGreaterThan(0)
          expect(row.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0)).toBeLessThanOrEqual(100)
        }
      }
    }),
    { seed: 9, numRuns: 150 },
  )
})

test("batch metrics are defined once and say nothing about nothing", () => {
  const names = batchMetricDefinitions.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  const facts = { batches: 2, samples: 8, groups: 2, trainedTokens: 30, forwardedTokens: 60, realTokens: 98, paddedTokens: 120, imbalance: 1.1, droppedOverBudget: 1 }
  expect(Object.fromEntries(batchMetricDefinitions.map(({ name, valueOf }) => [name, valueOf(facts)]))).toEqual({
    "batch/completions": 8, "batch/prompts": 2, "batch/micro_batches": 2, "batch/trained_share": 0.25, "batch/forwarded_share": 0.5, "batch/pad_share": 0.5,
    "batch/packing_ratio": 1.5, "batch/row_imbalance": 1.1, "batch/dropped": 1,
  })
  expect(batchMetricDefinitions[3]!.valueOf({ ...facts, paddedTokens: 0 })).toBeNull()
})
