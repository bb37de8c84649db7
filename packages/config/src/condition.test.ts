import { expect, test } from "bun:test"
import { conditionPattern, holds, parseCondition } from "./condition.ts"

test("reads comparisons joined by and; a dot is a slash", () => {
  expect(parseCondition(" age.p95 <= 3 ").all).toEqual([{ metric: "age/p95", operator: "<=", limit: 3 }])
  expect(conditionPattern.test(" a >= 1 and b.c < -2.5 ")).toBe(true)
  expect(parseCondition("truncated>=.9 and reward/mean <= -1e-3").all).toEqual([
    { metric: "truncated", operator: ">=", limit: 0.9 },
    { metric: "reward/mean", operator: "<=", limit: -0.001 },
  ])
})

test.each(["", "age.p95", "age.p95 <= x", "3 <= age.p95", "a >= 1 or b <= 2", "a => 1", "a >= 1 and"])("refuses %p", (text) => {
  expect(conditionPattern.test(text)).toBe(false)
  expect(() => parseCondition(text)).toThrow("no comparison")
})

test("holds when all do; unknown, and never true, without a value", () => {
  const condition = parseCondition("truncated >= 0.9 and reward/mean <= 0")
  expect(holds(condition, { truncated: 0.9, "reward/mean": 0 })).toBe(true)
  expect(holds(condition, { truncated: 0.89, "reward/mean": 0 })).toBe(false)
  expect(holds(condition, { truncated: 1 })).toBeUndefined()
  expect(holds(condition, { truncated: Number.NaN, "reward/mean": 0 })).toBeUndefined()
  expect(holds(condition, { truncated: 0 })).toBe(false)
})
