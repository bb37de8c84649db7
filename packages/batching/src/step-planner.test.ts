import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { sampleOf } from "../test/samples.ts"
import type { Sample } from "./sample.ts"
import { createStepPlanner, type StepPlan } from "./step-planner.ts"

const limits = { maxLength: 64, tokenBudget: 512, samplesPerStep: 64, packing: "auto" } as const

/** Groups of completions of one prompt each. */
function step(groups: number, prompt: number, completion: (group: number, member: number) => number, size = 4): Sample[] {
  return Array.from({ length: groups * size }, (_, index) => {
    const group = Math.floor(index / size)
    const own = completion(group, index % size)
    const base = sampleOf(prompt + own, `${group}/${index % size}`, own)
    return { ...base, groupId: `${group}`, tokenIds: base.tokenIds.map((id, at) => (at < prompt ? group * 100 + id : 10_000 + index * 100 + at)) }
  })
}

const shapesOf = (plans: readonly StepPlan[]): Set<string> =>
  new Set(plans.flatMap(({ microBatches }) => microBatches.map(({ rows, length, packed }) => `${packed === undefined ? "" : "packed "}${rows}x${length}`)))
const idsOf = ({ microBatches }: StepPlan): string[] => microBatches.flatMap(({ sampleIds }) => sampleIds).toSorted()

describe("createStepPlanner", () => {
  test("prompts of a group are shared by itself where that is cheaper, and not where nothing is in common", () => {
    const shared = createStepPlanner(limits).plan(step(8, 40, (_, member) => 4 + member))
    expect(shared).toMatchObject({ packed: true, shared: true })
    expect(shared.facts.forwardedTokens).toBeLessThan(shared.facts.realTokens / 2)
    expect(createStepPlanner(limits).plan(step(8, 1, () => 63))).toMatchObject({ packed: false, shared: false })
  })

  test("packing is what the caller says where it says something", () => {
    const samples = step(8, 40, () => 5)
    expect(createStepPlanner({ ...limits, packing: "rows" }).plan(samples).microBatches.every(({ packed }) => packed === undefined)).toBe(true)
    expect(createStepPlanner({ ...limits, packing: "packed" }).plan(step(8, 1, () => 63)).packed).toBe(true)
    const fixed = createStepPlanner({ maxLength: 64, samplesPerBatch: 5, samplesPerStep: 64, packing: "auto" }).plan(samples)
    expect(fixed.microBatches.map(({ rows, sampleIds }) => [rows, sampleIds.length])).toEqual([[5, 5], [5, 5], [5, 5], [5, 5], [5, 4], [5, 4], [5, 4]])
    expect(() => createStepPlanner({ ...limits, samplesPerBatch: 5 })).toThrow("exactly one of")
  })

  test("the facts are those of what is trained", () => {
    const samples = [...step(2, 10, () => 5), { ...sampleOf(90, "long"), groupId: "9" }]
    const { facts, droppedOverBudget, kept, microBatches } = createStepPlanner(limits).plan(samples, 4)
    expect(droppedOverBudget.map(({ id }) => id)).toEqual(["long"])
    expect(kept).toHaveLength(8)
    expect(facts).toMatchObject({ samples: 8, groups: 2, trainedTokens: 40, realTokens: 120, droppedOverBudget: 1, batches: microBatches.length })
    expect(facts.paddedTokens).toBe(microBatches.reduce((sum, { rows, length }) => sum + rows * length, 0))
    expect(microBatches[0]!.ages).toContain(1)
    expect(createStepPlanner(limits).plan([]).facts).toMatchObject({ batches: 0, samples: 0, paddedTokens: 0, imbalance: 1 })
  })

  test("one shape until a second has paid for itself", () => {
    const planner = createStepPlanner({ ...limits, cost: { attentionLength: 4096, perBatch: 8, perShape: 3000 } })
    const first = planner.plan(step(8, 20, () => 20))
    expect(shapesOf([first]).size).toBe(1)
    // Each of these steps is small and wastes most of that shape.
    const later = Array.from({ length: 30 }, () => planner.plan(step(1, 8, () => 4)))
    const shapes = later.map((plan) => [...shapesOf([plan])][0])
    expect(shapes[0]).toBe([...shapesOf([first])][0])
    const changed = shapes.findIndex((shape) => shape !== shapes[0])
    const saving = later[0]!.facts.paddedTokens - later.at(-1)!.facts.paddedTokens
    expect(changed).toBeGreaterThan(1)
    expect(changed * saving).toBeGreaterThan(2000)
    expect(changed * saving).toBeLessThan(4500)
  })

  test("at most eight shapes over a run of any lengths, every sample in one row, every batch in budget", () => {
    const lengths = fc.array(fc.record({ prompt: fc.integer({ min: 1, max: 40 }), longest: fc.integer({ min: 1, max: 60 }), groups: fc.integer({ min: 1, max: 12 }) }), { minLength: 12, maxLength: 12 })
    fc.assert(
      fc.property(lengths, fc.constantFrom("auto", "packed", "rows"), fc.integer({ min: 1, max: 4 }), (steps, packing, lanes) => {
        const planner = createStepPlanner({ maxLength: 64, tokenBudget: 256, samplesPerStep: 48, packing, lanes, cost: { attentionLength: 500, perBatch: 16, perShape: 200 } })
        const plans = steps.map(({ prompt, longest, groups }) => {
          const samples = step(groups, prompt, (group, member) => 1 + ((group * 7 + member * 13) % longest))
          const plan = planner.plan(samples)
          expect(idsOf(plan)).toEqual(plan.kept.map(({ id }) => id).toSorted())
          expect([...plan.kept, ...plan.droppedOverBudget].map(({ id }) => id).toSorted()).toEqual(samples.map(({ id }) => id).toSorted())
          for (const { tokenIds } of plan.droppedOverBudget) expect(tokenIds.length).toBeGreaterThan(64)
          for (const { rows, length } of plan.microBatches) {
            expect(rows * length).toBeLessThanOrEqual(256)
            expect(rows % lanes).toBe(0)
          }
          return plan
        })
        expect(shapesOf(plans).size).toBeLessThanOrEqual(8)
      }),
      { seed: 5, numRuns: 40 },
    )
  })

  test("rows for as many lanes as the budget holds of the longest samples, and none of those is dropped", () => {
    const longest = step(1, 1, () => 63)
    const rowsOf = (tokenBudget: number, lanes: number, samples = longest): readonly number[] => createStepPlanner({ ...limits, tokenBudget, lanes }).plan(samples).microBatches.map(({ rows }) => rows)
    expect(rowsOf(100, 4)).toEqual([1, 1, 1, 1])
    expect(rowsOf(128, 4)).toEqual([2, 2])
    expect(rowsOf(512, 4)).toEqual([4])
    expect(rowsOf(512, 2, step(1, 1, () => 63, 5))).toEqual([6])
    expect(createStepPlanner({ maxLength: 64, samplesPerBatch: 3, samplesPerStep: 64, packing: "auto", lanes: 2 }).plan(longest).microBatches.map(({ rows }) => rows)).toEqual([3, 3])
  })

  test.each(["auto", "rows", "packed"] as const)("a longest sample that is one token over the budget is trained, since its last is not forwarded (%s)", (packing) => {
    const planner = createStepPlanner({ maxLength: 33, tokenBudget: 32, samplesPerStep: 4, packing })
    expect(planner.longest).toBe(33)
    const { kept, microBatches } = planner.plan([sampleOf(33, "a"), sampleOf(34, "b"), sampleOf(33, "c")])
    expect(kept.map(({ id }) => id)).toEqual(["a", "c"])
    expect(microBatches.map(({ rows, length, trainedTokens }) => [rows, length, trainedTokens])).toEqual([[1, 32, 32], [1, 32, 32]])
  })

  test("short completions of short prompts fill their rows", () => {
    const shapeOf = (samples: readonly Sample[], maxLength: number, lanes: number, attentionLength: number): readonly (readonly number[])[] =>
      createStepPlanner({ maxLength, tokenBudget: 2048, samplesPerStep: samples.length, packing: "auto", lanes, cost: { attentionLength, perBatch: 64, perShape: 2500 } }).plan(samples).microBatches.map(({ rows, length }) => [rows, length])
    expect(shapeOf(step(4, 6, () => 32, 8), 40, 2, 1343)).toEqual([[16, 68]])
    expect(shapeOf(step(32, 6, (_, member) => 3 + (member % 2), 8), 16, 1, 203)).toEqual([[32, 32]])
  })

  test("steps whose lengths differ a little keep fitting the one shape that was compiled for the first", () => {
    const planner = createStepPlanner({ maxLength: 16, tokenBudget: 2048, samplesPerStep: 256, packing: "auto", cost: { attentionLength: 203, perBatch: 64, perShape: 93_000 } })
    let state = 1
    const random = (): number => (state = (state * 16_807) % 2_147_483_647) / 2_147_483_647
    /** Mostly 3 or 4 tokens, seldom 2 or up to 8. */
    const completion = (): number => {
      const drawn = random()
      return drawn < 0.01 ? 5 + Math.floor(4 * random()) : drawn < 0.04 ? 2 : drawn < 0.55 ? 4 : 3
    }
    const plans = Array.from({ length: 30 }, () => planner.plan(step(32, 6, completion, 8)))
    expect(shapesOf(plans).size).toBe(1)
    expect(plans.map(({ facts }) => facts.batches).reduce((sum, batches) => sum + batches)).toBeLessThanOrEqual(31)
    expect(plans[0]!.facts.paddedTokens).toBeLessThan(1200)
  })

  test("the order of samples does not matter", () => {
    const samples = step(6, 12, (group, member) => 3 + group + member)
    const ids = (order: readonly Sample[]): readonly (readonly string[])[] => createStepPlanner(limits).plan(order).microBatches.map(({ sampleIds }) => sampleIds.toSorted())
    expect(ids(samples.toReversed())).toEqual(ids(samples))
  })

  test("long runs on drifting lengths pad little", () => {
    for (const [packing, lanes] of [["packed", 1], ["rows", 1], ["packed", 2], ["rows", 2], ["packed", 4], ["rows", 4]] as const) {
      const planner = createStepPlanner({ maxLength: 512, tokenBudget: 4096, samplesPerStep: 128, packing, lanes })
      let real = 0
      let padded = 0
      for (let index = 0; index < 60; index++) {
        const { facts } = planner.plan(step(16, 30 + (index % 20), (group, member) => 40 + 4 * index + ((group * 37 + member * 61) % 150), 8))
        if (index < 10) continue
        real += facts.forwardedTokens
        padded += facts.paddedTokens
      }
      expect(1 - real / padded).toBeLessThan(packing === "packed" ? 0.1 : 0.15)
    }
  })
})
