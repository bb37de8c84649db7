import { expect, test } from "bun:test"
import { collate } from "./collate.ts"
import { sampleOf } from "../test/samples.ts"
import type { Sample } from "./sample.ts"

const changed = (change: Partial<Sample>): Sample => ({ ...sampleOf(3, "bad", 2), ...change })

test("rows are padded on the right, then up to the shape with rows that train nothing", () => {
  const long = { ...sampleOf(3, "a", 1), advantage: -2, weight: 0.5 }
  const batch = collate([long, sampleOf(2, "b", 1)], { rows: 3, length: 4 }, { padId: 9 })
  expect([...batch.tokenIds]).toEqual([1, 2, 9, 9, 1, 9, 9, 9, 9, 9, 9, 9])
  expect([...batch.attentionMask]).toEqual([1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
  expect([...batch.positions]).toEqual([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
  expect([...batch.targets]).toEqual([2, 3, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0])
  expect([...batch.lossMask]).toEqual([0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
  expect([...batch.behaviorLogProbs]).toEqual([0, -2.5, 0, 0, -1.5, 0, 0, 0, 0, 0, 0, 0])
  expect([...batch.advantages]).toEqual([-2, -2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
  expect([...batch.weights]).toEqual([0.5, 0.5, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])
  expect([...batch.versions]).toEqual([-1, 3, -1, -1, 3, -1, -1, -1, -1, -1, -1, -1])
  expect(batch).toMatchObject({ rows: 3, length: 4, sampleIds: ["a", "b"], trainedTokens: 2, forwardedTokens: 3 })
})

test("ages are of the sample's oldest version, known only for a version being trained", () => {
  const mixed = changed({ versions: Int32Array.of(-1, 4, 2) })
  const batch = collate([mixed, changed({ versions: new Int32Array(3).fill(-1) })], { rows: 3, length: 4 }, { version: 5 })
  expect([...batch.ages!]).toEqual([3, 3, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1])
  expect(collate([mixed], { rows: 1, length: 3 }).ages).toBeUndefined()
})

test("what the server sent for untrained tokens does not pass", () => {
  const sample = changed({ behaviorLogProbs: Float32Array.of(Number.NaN, -1, -2) })
  expect([...collate([sample], { rows: 1, length: 3 }).behaviorLogProbs]).toEqual([-1, -2, 0])
  const untrained = changed({ behaviorLogProbs: Float32Array.of(Number.NaN, Number.NaN, -2), lossMask: Uint8Array.of(0, 0, 1) })
  expect([...collate([untrained], { rows: 1, length: 3 }).behaviorLogProbs]).toEqual([0, -2, 0])
})

test("a missing behaviour log-prob stays NaN, an infinite one is refused", () => {
  const missing = changed({ behaviorLogProbs: Float32Array.of(0, Number.NaN, -2) })
  expect(collate([missing], { rows: 1, length: 3 }).behaviorLogProbs[0]).toBeNaN()
  const infinite = changed({ behaviorLogProbs: Float32Array.of(0, -Infinity, -2) })
  expect(() => collate([infinite], { rows: 1, length: 3 })).toThrow("behaviorLogProbs[1] is -Infinity")
})

test("malformed samples are refused by name", () => {
  const shape = { rows: 1, length: 3 }
  expect(() => collate([changed({ lossMask: Uint8Array.of(0, 1) })], shape)).toThrow("sample bad lossMask has 2 entries for 3 tokens")
  expect(() => collate([changed({ lossMask: Uint8Array.of(0, 1, 2) })], shape)).toThrow("lossMask[2] is 2, not 0 or 1")
  expect(() => collate([changed({ lossMask: Uint8Array.of(1, 1, 1) })], shape)).toThrow("trains its first token")
  expect(() => collate([changed({ advantage: Number.NaN })], shape)).toThrow("advantage is NaN")
  expect(() => collate([sampleOf(5)], shape)).toThrow("4 tokens to forward for a row of 3")
  expect(() => collate([sampleOf(3), sampleOf(2)], shape)).toThrow("2 samples for 1 rows")
})

test("a sample that just fits has its last token predicted by the row's last; one of a single token takes an empty row", () => {
  const batch = collate([sampleOf(4, "full"), sampleOf(1, "single")], { rows: 2, length: 3 })
  expect([...batch.targets]).toEqual([2, 3, 4, 0, 0, 0])
  expect(batch).toMatchObject({ sampleIds: ["full", "single"], trainedTokens: 3, forwardedTokens: 3 })
})
