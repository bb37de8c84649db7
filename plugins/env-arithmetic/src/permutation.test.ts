import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { permutation } from "./permutation.ts"

describe("permutation", () => {
  test("is a bijection for any size and seed", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3_000 }), fc.nat(), (size, seed) => {
        const at = permutation(size, seed)
        const seen = new Set(Array.from({ length: size }, (_, position) => at(position)))
        expect(seen.size).toBe(size)
        for (const value of seen) expect(Number.isInteger(value) && value >= 0 && value < size).toBe(true)
      }),
      { seed: 3, numRuns: 40 },
    )
  })

  test("stays inside and apart in a space too large to list", () => {
    const size = 2 ** 48
    const at = permutation(size, 5)
    const values = Array.from({ length: 5_000 }, (_, position) => at(size - 1 - position))
    expect(new Set(values).size).toBe(5_000)
    expect(values.every((value) => Number.isSafeInteger(value) && value >= 0 && value < size)).toBe(true)
  })

  test("mixes: any stretch is spread evenly over the space", () => {
    const at = permutation(10_000, 0)
    const tenths = Array.from({ length: 10 }, () => 0)
    for (let position = 0; position < 2_000; position++) tenths[Math.floor(at(position) / 1_000)]! += 1
    // 200 expected; 60 is more than four standard deviations of a fair draw.
    for (const count of tenths) expect(Math.abs(count - 200)).toBeLessThan(60)
  })

  test("depends on the seed, past 32 bits too", () => {
    const first = (seed: number) => Array.from({ length: 20 }, (_, position) => permutation(10_000, seed)(position)).join()
    expect(first(1)).toBe(first(1))
    expect(new Set([first(0), first(1), first(2), first(2 ** 32), first(2 ** 33)]).size).toBe(5)
  })
})
