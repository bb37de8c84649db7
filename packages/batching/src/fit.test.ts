import { expect, test } from "bun:test"
import fc from "fast-check"
import { sampleOf } from "../test/samples.ts"
import { fitLadder } from "./fit.ts"
import { bucketLadder } from "./ladder.ts"
import { planBatches } from "./plan.ts"

const options = { maxLength: 512, tokenBudget: 4096, maxShapes: 4 }

test("pads no more than the geometric ladder and less on clustered lengths", () => {
  const lengths = Array.from({ length: 400 }, (_, index) => (index % 4 === 0 ? 300 + (index % 7) : 40 + (index % 5)))
  const samples = lengths.map((length, index) => sampleOf(length, `s${index}`))
  const padding = (buckets: ReturnType<typeof bucketLadder>) => planBatches(samples, { buckets }).stats.padFraction
  expect(padding(fitLadder(lengths, options))).toBeLessThan(0.12)
  expect(padding(bucketLadder(options))).toBeGreaterThan(0.2)
})

test("is the best choice of lengths, by trying all of them", () => {
  // The last token of a sample takes no room.
  const padded = (lengths: readonly number[], chosen: readonly number[]): number =>
    lengths.reduce((tokens, length) => tokens + Math.min(...chosen.filter((candidate) => candidate >= length - 1)), 0)
  const small = { maxLength: 65, tokenBudget: 4096, maxShapes: 3 }
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 65 }), { minLength: 1, maxLength: 20 }), (lengths) => {
      const candidates = Array.from({ length: 15 }, (_, index) => 4 * (index + 1))
      const best = Math.min(...candidates.flatMap((a) => candidates.map((b) => padded(lengths, [a, b, 64]))))
      const fitted = fitLadder(lengths, small).map(({ length }) => length)
      expect(padded(lengths, fitted)).toBe(best)
      expect(fitted.at(-1)).toBe(64)
      expect(fitted.length).toBeLessThanOrEqual(3)
    }),
    { seed: 4, numRuns: 60 },
  )
})

test("still reaches the longest sample without any lengths, and ignores those over it", () => {
  expect(fitLadder([], options)).toEqual([{ rows: 8, length: 512 }])
  expect(fitLadder([9000], options)).toEqual([{ rows: 8, length: 512 }])
})
