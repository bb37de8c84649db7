import { expect, test } from "bun:test"
import type { Sample } from "@cohort/batching"
import { ageOf, freshnessOf } from "./freshness.ts"

const sample = (versions: readonly number[]): Sample => ({
  id: "s", groupId: "g", rolloutId: "r", tokenIds: new Int32Array(versions.length), lossMask: Uint8Array.from(versions, (version) => (version === -1 ? 0 : 1)),
  behaviorLogProbs: new Float32Array(versions.length), versions: Int32Array.from(versions), advantage: 0, weight: 1, truncated: false,
})

test("a sample is as old as its oldest trained token", () => {
  expect(ageOf(sample([-1, -1, 7, 5, 8]), 8)).toBe(3)
  expect(ageOf(sample([-1]), 8)).toBeNull()
})

test("percentiles and shares weigh samples by trained tokens", () => {
  const many = sample([-1, ...Array.from({ length: 96 }, () => 8)])
  const few = sample([4, 6, 8, 8])
  expect(freshnessOf([many, few], 8)).toEqual({
    tokens: 100, unknownTokens: 0, mean: 0.16, p50: 0, p95: 0, p99: 4, max: 4,
    shareByAge: [{ age: 0, share: 0.96 }, { age: 4, share: 0.04 }],
  })
})

test("without tokens there is no age, and an unknown version is not age 0", () => {
  expect(freshnessOf([], 3)).toMatchObject({ tokens: 0, p50: null, max: null, mean: null, shareByAge: [] })
  const unknown = { ...sample([1, 1]), versions: Int32Array.from([-1, -1]) }
  expect(freshnessOf([unknown], 3)).toMatchObject({ tokens: 0, unknownTokens: 2, max: null })
})
