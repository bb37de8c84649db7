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

function withToolTokens(sample: Sample, prompt: number): Sample {
  const isTool = (index: number): boolean => index > prompt && (index - prompt) % 4 === 3
  return {
    ...sample,
    lossMask: sample.lossMask.map((mask, index) => (isTool(index) ? 0 : mask)),
    behaviorLogProbs: sample.behaviorLogProbs.map((value, index) => (isTool(index) ? 0 : value)),
    versions: sample.versions.map((version, index) => (isTool(index) ? -1 : version)),
  }
}

const batchesOf = (plan: PackedPlan): MicroBatch[] => plan.batches.map((batch) => collatePacked(batch, plan.samplesPerRow))

/** Checks that every trained token of every sample is predicted once, from a token that sees exactly the sample's own prefix. */
function expectFaithful(plan: PackedPlan, samples: readonly Sample[]): void {
  const byId = new Map(samples.map((sample) => [sample.id, sample]))
  const trained = new Map<string, number[]>(samples.map(({ id }) => [id, []]))
  for (const batch of batchesOf(plan)) {
    const { rows, length } = batch
    const packed = batch.packed!
    let before = 0
    for (let row = 0; row < rows; row++) {
      const at = (index: number): number => row * length + index
      for (let i = 0; i < length; i++) {
        const number = packed.sequence[at(i)]!
        if (number === -1) {
          expect([batch.lossMask[at(i)], batch.targets[at(i)], packed.source[at(i)]]).toEqual([0, 0, 0])
          continue
        }
        expect(number).toBeLessThan(packed.samples[row]!)
        const sample = byId.get(batch.sampleIds[before + number]!)!
        const source = packed.source[at(i)]!
        const next = batch.positions[at(source)]! + 1
        const visible = Array.from({ length: source + 1 }, (_, j) => j).filter((j) => source < packed.visibleUntil[at(j)]!)
        expect(visible.map((j) => batch.positions[at(j)])).toEqual(Array.from({ length: next }, (_, p) => p))
        expect(visible.map((j) => batch.tokenIds[at(j)])).toEqual(Array.from(sample.tokenIds.slice(0, next)))
        expect(visible.every((j) => batch.attentionMask[at(j)] === 1)).toBe(true)
        expect(batch.targets[at(i)]).toBe(sample.tokenIds[next]!)
        expect(batch.lossMask[at(i)]).toBe(sample.lossMask[next]!)
        expect(batch.behaviorLogProbs[at(i)]).toBe(sample.behaviorLogProbs[next]!)
        expect(batch.versions[at(i)]).toBe(sample.versions[next]!)
        expect([batch.advantages[at(i)], batch.weights[at(i)]]).toEqual([sample.advantage, sample.weight])
        if (batch.lossMask[at(i)] === 1) trained.get(sample.id)!.push(next)
      }
      before += packed.samples[row]!
    }
    expect(before).toBe(batch.sampleIds.length)
  }
  for (const sample of samples) expect(trained.get(sample.id)).toEqual([...sample.lossMask.keys()].filter((index) => sample.lossMask[index] === 1))
}

test("the trunk is what no sample trains and all have in common, and leaves a token of each", () => {
  const members = group("a", 5, [3, 4])
  expect(sharedTokens(members)).toBe(5)
  expect(sharedTokens(members.slice(1))).toBe(0)
  const [one, two] = members
  const other = { ...two!, tokenIds: two!.tokenIds.with(2, 7) }
  expect(sharedTokens([one!, other])).toBe(2)
  // Equal first answers stay apart: each has its own advantage.
  const same = { ...one!, id: "copy" }
  expect(sharedTokens([one!, same])).toBe(5)
  expect(sharedTokens(group("a", 5, [0, 4]))).toBe(4)
})

test("a group is one trunk with branches: exact arrays", () => {
  const plan = planPacked(group("a", 3, [2, 1]), { buckets: [{ rows: 1, length: 8 }], share: "always" })
  expect(plan.shared).toBe(true)
  const [batch] = batchesOf(plan)
  const [longer, shorter] = plan.batches[0]!.rows[0]!.trees[0]!.samples
  const none = [0, 0, 0, 0]
  expect([...batch!.tokenIds]).toEqual([...longer!.tokenIds.slice(0, 4), ...none])
  expect([...batch!.positions]).toEqual([0, 1, 2, 3, ...none])
  expect([...batch!.packed!.visibleUntil]).toEqual([4, 4, 4, 4, 5, 6, 7, 8])
  expect([...batch!.targets]).toEqual([longer!.tokenIds[3]!, longer!.tokenIds[4]!, shorter!.tokenIds[3]!, 0, ...none])
  expect([...batch!.packed!.source]).toEqual([2, 3, 2, 0, ...none])
  expect([...batch!.packed!.sequence]).toEqual([0, 0, 1, -1, -1, -1, -1, -1])
  expect([...batch!.packed!.samples]).toEqual([2])
  expect([...batch!.lossMask]).toEqual([1, 1, 1, 0, ...none])
  expect(batch).toMatchObject({ sampleIds: ["a/0", "a/1"], trainedTokens: 3, forwardedTokens: 4 })
})

test("a second tree and a lone sample follow in the row: exact arrays", () => {
  const plan = planPacked([...group("a", 2, [3, 2]), ...group("b", 3, [1])], { buckets: [{ rows: 2, length: 9 }], share: "always" })
  const [batch] = batchesOf(plan)
  expect(Array.from(batch!.positions.subarray(0, 9))).toEqual([0, 1, 2, 3, 2, 0, 1, 2, 0])
  expect(Array.from(batch!.packed!.visibleUntil.subarray(0, 9))).toEqual([5, 5, 4, 4, 5, 8, 8, 8, 9])
  expect(Array.from(batch!.packed!.source.subarray(0, 9))).toEqual([1, 2, 3, 1, 4, 5, 6, 7, 0])
  expect(Array.from(batch!.packed!.sequence.subarray(0, 9))).toEqual([0, 0, 0, 1, 1, 2, 2, 2, -1])
  expect(Array.from(batch!.lossMask.subarray(0, 9))).toEqual([1, 1, 1, 1, 1, 0, 0, 1, 0])
  expect(batch).toMatchObject({ sampleIds: ["a/0", "a/1", "b/0"], trainedTokens: 6, forwardedTokens: 8 })
})

test("completions of one token need room for their predictions, not for their tokens", () => {
  const samples = group("a", 2, [1, 1, 1, 1, 1])
  const plan = planPacked(samples, { buckets: [{ rows: 2, length: 3 }, { rows: 1, length: 5 }], share: "always" })
  expect(plan.batches.map(({ shape }) => shape)).toEqual([{ rows: 1, length: 5 }])
  expect(plan.batches[0]!.rows.map(({ tokens, predictions }) => [tokens, predictions])).toEqual([[2, 5]])
  const narrow = planPacked(samples, { buckets: [{ rows: 2, length: 3 }], share: "always" })
  expect(narrow.batches[0]!.rows.map(({ predictions }) => predictions).toSorted()).toEqual([2, 3])
  for (const each of [plan, narrow]) expectFaithful(each, samples)
})

test("sharing is chosen by itself where it saves", () => {
  const long = group("a", 100, [10, 12, 9, 11])
  const buckets = [{ rows: 4, length: 128 }, { rows: 1, length: 256 }]
  const plan = planPacked(long, { buckets })
  expect(plan.shared).toBe(true)
  expect(plan.stats.forwardedTokens).toBe(100 + 9 + 11 + 8 + 10)
  const short = group("a", 1, [10, 12, 9, 11])
  expect(planPacked(short, { buckets })).toMatchObject({ shared: true, stats: { forwardedTokens: 1 + 9 + 11 + 8 + 10 } })
  expect(planPacked(group("a", 1, [40, 40]), { buckets: [{ rows: 2, length: 40 }] }).shared).toBe(false)
  expect(planPacked(long, { buckets, share: "never" }).stats.forwardedTokens).toBe(442 - 4)
})

test("a group over the row length is cut into trees with a trunk each", () => {
  const samples = group("a", 20, [20, 20, 20, 20])
  const plan = planPacked(samples, { buckets: [{ rows: 2, length: 64 }], share: "always" })
  expect(plan.stats.rows).toBe(2)
  expect(plan.stats.forwardedTokens).toBe(2 * (20 + 19 + 19))
  expectFaithful(plan, samples)
})

describe("whatever the samples", () => {
  const groups = fc.array(fc.record({ prompt: fc.integer({ min: 1, max: 30 }), completions: fc.array(fc.integer({ min: 0, max: 30 }), { minLength: 1, maxLength: 5 }) }), { maxLength: 5 })

  test("every sample is in one row, sees itself only, and is trained once", () => {
    fc.assert(
      fc.property(groups, fc.constantFrom("auto", "never", "always"), fc.integer({ min: 20, max: 90 }), (drawn, share, budget) => {
        // Every fourth token behind the first trained one is a tool's, in the groups of even number.
        const samples = drawn.flatMap(({ prompt, completions }, index) => group(`g${index}`, prompt, completions).map((sample) => (index % 2 === 0 ? withToolTokens(sample, prompt) : sample)))
        const buckets = bucketLadder({ maxLength: 80, tokenBudget: budget })
        const plan = planPacked(samples, { buckets, share, samplesPerRow: 4 })
        const placed = plan.batches.flatMap((batch) => batch.rows.flatMap(({ trees }) => trees.flatMap((tree) => tree.samples)))
        expect([...placed, ...plan.droppedOverBudget].map(({ id }) => id).toSorted()).toEqual(samples.map(({ id }) => id).toSorted())
        for (const { shape, rows } of plan.batches) {
          expect(buckets).toContainEqual(shape)
          expect(rows.length).toBeGreaterThan(0)
          for (const { tokens, predictions, trees } of rows) {
            expect(Math.max(tokens, predictions)).toBeLessThanOrEqual(shape.length)
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
  expect([...collatePacked(plan.batches[0]!, plan.samplesPerRow, { version: 5 }).ages!]).toEqual([3, 3, 2, -1, -1, -1, -1, -1])
})

test("nothing to plan, and malformed samples", () => {
  const none = planPacked([], { buckets: [{ rows: 1, length: 8 }] })
  expect(none.batches).toEqual([])
  expect(none.stats).toMatchObject({ padFraction: 0, imbalance: 1 })
  const bad = { ...sampleOf(4, "bad"), versions: new Int32Array(1) }
  const plan = planPacked([bad], { buckets: [{ rows: 1, length: 8 }] })
  expect(() => collatePacked(plan.batches[0]!, plan.samplesPerRow)).toThrow("sample bad versions has 1 entries for 4 tokens")
})
