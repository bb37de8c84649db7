import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { asRewardResult } from "./result.ts"

describe("asRewardResult", () => {
  test("keeps numbers and null apart", () => {
    expect(asRewardResult(0)).toEqual({ kind: "ok", value: 0 })
    expect(asRewardResult(-2.5)).toEqual({ kind: "ok", value: -2.5 })
    expect(asRewardResult(null)).toEqual({ kind: "notApplicable" })
  })

  test.each([
    [Number.NaN, "NaN"],
    [Number.POSITIVE_INFINITY, "Infinity"],
    [undefined, "undefined"],
    ["1", '"1" (string)'],
    [true, "true (boolean)"],
    [3n, "3 (bigint)"],
    [[1], "[1] (array)"],
    [{ value: 1 }, '{"value":1} (object)'],
    [() => 1, "a function"],
  ])("refuses %p and names it", (value, named) => {
    const result = asRewardResult(value)
    expect(result).toMatchObject({ kind: "failed", retryable: false })
    expect(result.kind === "failed" && result.error).toContain(named)
  })

  test("checks the inside of a RewardResult", () => {
    expect(asRewardResult({ kind: "ok", value: 1, parts: { a: 0.5 }, reason: "r" })).toEqual({ kind: "ok", value: 1, parts: { a: 0.5 }, reason: "r" })
    expect(asRewardResult({ kind: "ok", value: Number.NaN })).toMatchObject({ kind: "failed", error: expect.stringContaining("value NaN") })
    expect(asRewardResult({ kind: "ok", value: 1, parts: { a: Number.NaN } })).toMatchObject({ kind: "failed", error: expect.stringContaining("parts") })
    expect(asRewardResult({ kind: "failed", error: "judge is down", retryable: true })).toEqual({ kind: "failed", error: "judge is down", retryable: true })
    expect(asRewardResult({ kind: "failed" })).toMatchObject({ kind: "failed", error: expect.stringContaining("without a text") })
  })

  test("never throws, and what is ok is finite", () => {
    const cyclic: Record<string, unknown> = {}
    cyclic["self"] = cyclic
    expect(asRewardResult(cyclic).kind).toBe("failed")
    expect(asRewardResult(Object.create(null)).kind).toBe("failed")
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withNullPrototype: true }), (value) => {
        const result = asRewardResult(value)
        if (result.kind === "ok") expect(Number.isFinite(result.value)).toBe(true)
      }),
      { seed: 7, numRuns: 300 },
    )
  })
})
