import { expect, test } from "bun:test"
import { bytes, count, decimal, duration, percent } from "./numbers.ts"

test("durations change units without a 60 in the seconds", () => {
  expect([0.0123, 0.35, 12.34, 59.96, 65, 3599.6, 7380].map(duration)).toEqual(["0.012 s", "0.35 s", "12.3 s", "1 min 00 s", "1 min 05 s", "1 h 00 min", "2 h 03 min"])
  expect(duration(Number.NaN)).toBe("-")
})

test("sizes and shares", () => {
  expect([0, 999, 1000, 274_000_871, 9_996_000, 1.2e12].map(bytes)).toEqual(["0 B", "999 B", "1.0 kB", "274 MB", "10.0 MB", "1.2 TB"])
  expect(percent(0.8754)).toBe("87.5%")
  expect(count(12345.6)).toBe("12,346")
})

test("decimals keep what matters", () => {
  expect([0, 0.00123, 0.0123, 1.234, 123.45, 12_345.6, Number.NaN, -0.5].map(decimal)).toEqual(["0.00", "0.0012", "0.012", "1.23", "123.5", "12,346", "-", "-0.500"])
})
