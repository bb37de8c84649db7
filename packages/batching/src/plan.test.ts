import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { collate } from "./collate.ts"
import { sampleOf } from "../test/samples.ts"
import { bucketLadder } from "./ladder.ts"
import { planBatches } from "./plan.ts"
import type { Plan } from "./plan.ts"
import { windowTotals } from "./totals.ts"

const samplesOf = (lengths: readonly number[]) => lengths.map((length, index) => sampleOf(length, `s${index}`))
const contents = (plan: Plan) =>
  plan.batches.map(({ shape, samples }) => `${shape.rows}x${shape.length}:${samples.map(({ id }) => id).toSorted().join(",")}`).toSorted()

describe("planBatches", () => {
  test("puts the quickstart's 256 short samples into one micro-batch", () => {
    const buckets = bucketLadder({ maxLength: 16, tokenBudget: 16384, samplesPerStep: 256 })
    const plan = planBatches(samplesOf(Array.from({ length: 256 }, (_, index) => 7 + (index % 10))), { buckets })
    expect(plan.batches.map(({ shape }) => shape)).toEqual([{ rows: 256, length: 16 }])
    const tight = planBatches(samplesOf(Array.from({ length: 256 }, () => 17)), { buckets: bucketLadder({ maxLength: 17, tokenBudget: 2048 }) })
    expect(tight.batches).toHaveLength(2)
    expect(tight.stats.padFraction).toBe(0)
  })

  test("drops an oversized sample wherever it stands and never gives an empty batch", () => {
    const buckets = [{ rows: 2, length: 10 }]
    for (const lengths of [[12, 4, 5], [4, 12, 5], [4, 5, 12]]) {
      const plan = planBatches(samplesOf(lengths), { buckets })
      expect(plan.droppedOverBudget.map(({ tokenIds }) => tokenIds.length)).toEqual([12])
      expect(plan.batches.map(({ samples }) => samples.length)).toEqual([2])
      expect(plan.stats.droppedOverBudget).toBe(1)
    }
    const nothing = planBatches(samplesOf([12]), { buckets })
    expect(nothing.batches).toEqual([])
    expect(nothing.stats).toMatchObject({ padFraction: 0, imbalance: 1, samples: 0 })
  })

  test("fills the free rows of a long batch with short samples instead of opening another", () => {
    const buckets = [{ rows: 8, length: 16 }, { rows: 4, length: 32 }]
    const plan = planBatches(samplesOf([30, 10, 10, 10]), { buckets })
    expect(plan.batches.map(({ shape }) => shape.length)).toEqual([32])
  })

  test("costs no more than the greedy way of one shape per length", () => {
    const buckets = bucketLadder({ maxLength: 512, tokenBudget: 2048 })
    const lengths = Array.from({ length: 300 }, (_, index) => 10 + ((index * 7919) % 500))
    const greedy = buckets.reduce((tokens, { rows, length }, index) => {
      const shorter = buckets[index - 1]?.length ?? 0
      const members = lengths.filter((value) => value <= length && value > shorter).length
      return tokens + Math.ceil(members / rows) * rows * length
    }, 0)
    const { stats } = planBatches(samplesOf(lengths), { buckets })
    expect(stats.paddedTokens).toBeLessThanOrEqual(greedy * 1.02)
    expect(stats.padFraction).toBeLessThan(0.25)
  })

  test("every sample ends in exactly one row or is dropped, inside its shape, whatever the order", () => {
    const arbitrary = fc.record({
      lengths: fc.array(fc.integer({ min: 2, max: 300 }), { maxLength: 80 }),
      budget: fc.integer({ min: 64, max: 1024 }),
      shuffle: fc.array(fc.nat(), { minLength: 80, maxLength: 80 }),
    })
    fc.assert(
      fc.property(arbitrary, ({ lengths, budget, shuffle }) => {
        const buckets = bucketLadder({ maxLength: 256, tokenBudget: budget })
        const samples = samplesOf(lengths)
        const plan = planBatches(samples, { buckets })
        const placed = [...plan.batches.flatMap((batch) => batch.samples), ...plan.droppedOverBudget].map(({ id }) => id)
        expect(placed.toSorted()).toEqual(samples.map(({ id }) => id).toSorted())
        let trained = 0
        for (const { shape, samples: members } of plan.batches) {
          expect(buckets).toContainEqual(shape)
          expect(shape.rows * shape.length).toBeLessThanOrEqual(budget)
          expect(members.length).toBeGreaterThan(0)
          trained += collate(members, shape).trainedTokens
        }
        expect(trained).toBe(windowTotals(plan.batches.flatMap((batch) => batch.samples)).trainedTokens)
        const order = samples.map((sample, index) => ({ sample, key: shuffle[index]! })).toSorted((a, b) => a.key - b.key)
        const again = planBatches(order.map(({ sample }) => sample), { buckets })
        expect(contents(again)).toEqual(contents(plan))
      }),
      { seed: 11, numRuns: 60 },
    )
  })

  test("evens out squared lengths between batches of one shape", () => {
    const lengths = Array.from({ length: 64 }, (_, index) => 65 + (index % 64))
    const { stats } = planBatches(samplesOf(lengths), { buckets: [{ rows: 16, length: 128 }] })
    expect(stats.batches).toBe(4)
    expect(stats.imbalance).toBeLessThan(1.05)
  })

  test("plans 100k samples in well under a second", () => {
    const shared = Array.from({ length: 2000 }, (_, length) => new Int32Array(length + 1))
    const samples = Array.from({ length: 100_000 }, (_, index) => ({ id: `sample-${index}`, tokenIds: shared[(index * 7919) % 2000]! }))
    const buckets = bucketLadder({ maxLength: 2000, tokenBudget: 16384 })
    const started = performance.now()
    const { stats } = planBatches(samples, { buckets })
    // Four times what it takes on an idle 2-core machine, since tests share it.
    expect(performance.now() - started).toBeLessThan(800)
    expect(stats.samples).toBe(100_000)
  })
})
