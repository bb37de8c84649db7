import { expect, test } from "bun:test"
import { combineRewards } from "./reward.ts"
import type { RewardOutcome } from "./reward.ts"

const ok = (value: number): RewardOutcome => ({ kind: "ok", value })
const none: RewardOutcome = { kind: "notApplicable" }
const failed: RewardOutcome = { kind: "failed", error: "judge timed out", retryable: true }

test("a reward that does not apply leaves the sum and the mean", () => {
  expect(combineRewards([ok(1), none, ok(3)], { weights: [2, 5, 1] }).value).toBe(5)
  expect(combineRewards([ok(1), none, ok(3)], { weights: [1, 5, 3], combine: "mean" }).value).toBe(2.5)
  expect(combineRewards([none, none]).value).toBeNull()
  expect(combineRewards([]).value).toBeNull()
})

test("a failed reward drops the completion, is ignored or aborts by rule, and is never zero", () => {
  expect(combineRewards([ok(1), failed])).toEqual({ value: null, values: [1, null], errors: ["judge timed out"] })
  expect(combineRewards([ok(1), failed], { onFailed: "ignore", combine: "mean" }).value).toBe(1)
  expect(combineRewards([failed], { onFailed: "ignore" }).value).toBeNull()
  expect(() => combineRewards([ok(1), failed], { onFailed: "abort" })).toThrow("judge timed out")
})

test("NaN, infinities and a wrong number of weights are refused", () => {
  expect(() => combineRewards([ok(0), ok(Number.NaN)])).toThrow("reward 1 returned NaN")
  expect(() => combineRewards([ok(-Infinity)])).toThrow("-Infinity")
  expect(() => combineRewards([ok(1)], { weights: [1, 2] })).toThrow("2 reward weights for 1 rewards")
})
