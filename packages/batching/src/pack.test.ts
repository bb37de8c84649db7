import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { sampleOf } from "../test/samples.ts"
import { collatePacked } from "./collate-packed.ts"
import { bucketLadder } from "./ladder.ts"
import { type PackedPlan, planPacked } from "./pack.ts"
import type { MicroBatch, Sample } from "./sample.ts"
import { sharedTokens } from "./tree.ts"

/** A group of completions of one prompt of `prompt` tokens. */
function group(name: string, prompt: number, completions: readonly number[]): Sample[] {
  return completions.map((completion, member) => {
    const base = sampleOf(prompt + completion, `${name}/${member}`, completion)
    const seed = [...name].reduce((sum, letter) => sum + letter.codePointAt(0)!, 0)
    return { ...base, groupId: name, advantage: member - 1, tokenIds: base.tokenIds.map((id, index) => (index < prompt ? seed * 1000 + id : seed * 1000 + 500 + member * 50 + index)) }
  })
}

const batchesOf = (plan: PackedPlan): MicroBatch[] => plan.batches.map((batch) => collatePacked(batch, plan.samplesPerRow))

/** Checks that every trained token of every sample sees exactly its own prefix, and follows its predecessor. */
function expectFaithful(plan: PackedPlan, samples: readonly Sample[]): void {
  const byId = new Map(samples.map((sample) => [sample.id, sample]))
  const trained = new Map<string, number>()
  for (const batch of batchesOf(plan)) {
    const { rows, length, packed } = batch
    let seen = 0
    for (let row = 0; row < rows; row++) {
      const at = (index: number): number => row * length + index
      let inRow = 0
      for (let i = 0; i < length; i++) {
        const number = packed!.sequence[at(i)]!
        inRow = Math.max(inRow, number + 1)
        if (batch.lossMask[at(i)] !== 1) continue
        const sample = byId.get(batch.sampleIds[seen + number]!)!
        const position = batch.positions[at(i)]!
        const visible = Array.from({ length: i + 1 }, (_, j) => j).filter((j) => i < packed!.visibleUntil[at(j)]!)
        // The token before a branch is repeated at its start, so one position of the trunk may be seen twice only if it was cut there: it never is.
        expect(visible.map((j) => batch.positions[at(j)])).toEqual(Array.from({ length: position + 1 }, (_, p) => p))
        expect(visible.map((j) => batch.tokenIds[at(j)])).toEqual(Array.from(sample.tokenIds.slice(0, position + 1)))
        expect(batch.positions[at(i - 1)]).toBe(position - 1)
        expect(batch.behaviorLogProbs[at(i)]).toBe(sample.behaviorLogProbs[position]!)
        expect(batch.advantages[at(i)]).toBe(sample.advantage)
        trained.set(sample.id, (trained.get(sample.id) ?? 0) + 1)
      }
      seen += inRow
    }
    expect(seen).toBe(batch.sampleIds.length)
  }
  for (const sample of samples) expect(trained.get(sample.id) ?? 0).toBe(sample.lossMask.reduce((sum, mask) => sum + mask, 0))
}

test("the trunk is what no sample trains and all have in common, less the last token", () => {
  const members = group("a", 5, [3, 4])
  expect(sharedTokens(members)).toBe(4)
  expect(sharedTokens(members.slice(1))).toBe(0)
  const [one, two] = members
  const other = { ...two!, tokenIds: two!.tokenIds.with(2, 7) }
  expect(sharedTokens([one!, other])).toBe(1)
  // Equal first answers stay apart: each has its own advantage.
  const same = { ...one!, id: "copy" }
  expect(sharedTokens([one!, same])).toBe(4)
})

test("a group is one trunk with branches: exact arrays", () => {
  const plan = planPacked(group("a", 3, [2, 1]), { buckets: [{ rows: 1, length: 8 }], share: "always" })
  expect(plan.shared).toBe(true)
  const [batch] = batchesOf(plan)
  expect([...batch!.positions]).toEqual([0, 1, 2, 3, 4, 2, 3, 0])
  expect([...batch!.lossMask]).toEqual([0, 0, 0, 1, 1, 0, 1, 0])
  expect([...batch!.packed!.visibleUntil]).toEqual([7, 7, 5, 5, 5, 7, 7, 8])
  expect([...batch!.packed!.sequence]).toEqual([-1, -1, 0, 0, 0, 1, 1, -1])
  expect(batch).toMatchObject({ sampleIds: ["a/0", "a/1"], trainedTokens: 3, realTokens: 7 })
})

test("sharing is chosen by itself where it saves", () => {
  const long = group("a", 100, [10, 12, 9, 11])
  const buckets = [{ rows: 4, length: 128 }, { rows: 1, length: 256 }]
  const plan = planPacked(long, { buckets })
  expect(plan.shared).toBe(true)
  expect(plan.stats.forwardedTokens).toBe(99 + 11 + 13 + 10 + 12)
  const short = group("a", 1, [10, 12, 9, 11])
  expect(planPacked(short, { buckets }).shared).toBe(false)
  expect(planPacked(long, { buckets, share: "never" }).stats.forwardedTokens).toBe(442)
})

test("a group over the row length is cut into trees with a trunk each", () => {
  const samples = group("a", 20, [20, 20, 20, 20])
  const plan = planPacked(samples, { buckets: [{ rows: 2, length: 64 }], share: "always" })
  expect(plan.stats.rows).toBe(2)
  expect(plan.stats.forwardedTokens).toBe(2 * (19 + 21 + 21))
  expectFaithful(plan, samples)
})

describe("whatever the samples", () => {
  const groups = fc.array(fc.record({ prompt: fc.integer({ min: 1, max: 30 }), completions: fc.array(fc.integer({ min: 0, max: 30 }), { minLength: 1, maxLength: 5 }) }), { maxLength: 5 })

  test("every sample is in one row, sees itself only, and is trained once", () => {
    fc.assert(
      fc.property(groups, fc.constantFrom("auto", "never", "always"), fc.integer({ min: 20, max: 90 }), (drawn, share, budget) => {
        const samples = drawn.flatMap(({ prompt, completions }, index) => group(`g${index}`, prompt, completions))
        const buckets = bucketLadder({ maxLength: 80, tokenBudget: budget })
        const plan = planPacked(samples, { buckets, share, samplesPerRow: 4 })
        const placed = plan.batches.flatMap((batch) => batch.rows.flatMap(({ trees }) => trees.flatMap((tree) => tree.samples)))
        expect([...placed, ...plan.droppedOverBudget].map(({ id }) => id).toSorted()).toEqual(samples.map(({ id }) => id).toSorted())
        for (const { shape, rows } of plan.batches) {
          expect(buckets).toContainEqual(shape)
          expect(rows.length).toBeGreaterThan(0)
          for (const { tokens, trees } of rows) {
            expect(tokens).toBeLessThanOrEqual(shape.length)
            expect(trees.reduce((sum, tree) => sum + tree.samples.length, 0)).toBeLessThanOrEqual(4)
          }
        }
        expectFaithful(plan, placed)
      }),
      { seed: 21, numRuns: 60 },
    )
  })

  test("the order of samples does not matter", () => {
    const samples = [...group("a", 9, [3, 8, 8]), ...group("b", 4, [6, 2])]
    const options = { buckets: bucketLadder({ maxLength: 64, tokenBudget: 128 }) }
    expect(planPacked(samples.toReversed(), options).stats).toEqual(planPacked(samples, options).stats)
  })
})

test("branches have the age of their own sample", () => {
  const [one, two] = group("a", 3, [2, 1])
  const plan = planPacked([{ ...one!, versions: Int32Array.of(-1, -1, -1, 2, 4) }, two!], { buckets: [{ rows: 1, length: 8 }], share: "always" })
  expect([...collatePacked(plan.batches[0]!, plan.samplesPerRow, { version: 5 }).ages!]).toEqual([-1, -1, 3, 3, 3, 2, 2, -1])
})

test("nothing to plan, and malformed samples", () => {
  const none = planPacked([], { buckets: [{ rows: 1, length: 8 }] })
  expect(none.batches).toEqual([])
  expect(none.stats).toMatchObject({ padFraction: 0, imbalance: 1 })
  const bad = { ...sampleOf(4, "bad"), versions: new Int32Array(1) }
  const plan = planPacked([bad], { buckets: [{ rows: 1, length: 8 }] })
  expect(() => collatePacked(plan.batches[0]!, plan.samplesPerRow)).toThrow("sample bad versions has 1 entries for 4 tokens")
})
