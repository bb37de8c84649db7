import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { permutation } from "./permutation.ts"

const order = (size: number, seed: number, epoch = 0) => {
  const indexAt = permutation(size, seed, epoch)
  return Array.from({ length: size }, (_, i) => indexAt(i))
}

test("every index comes once, whatever size, seed and epoch", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 700 }), fc.maxSafeNat(), fc.nat(1000), (size, seed, epoch) => {
      expect(order(size, seed, epoch).toSorted((a, b) => a - b)).toEqual(Array.from({ length: size }, (_, i) => i))
    }),
    { seed: 1, numRuns: 60 },
  )
})

test("seed and epoch change the order, the same ones do not", () => {
  expect(order(50, 1)).toEqual(order(50, 1))
  expect(order(50, 1)).not.toEqual(order(50, 2))
  expect(order(50, 1)).not.toEqual(order(50, 1 + 2 ** 32))
  expect(order(50, 1, 0)).not.toEqual(order(50, 1, 1))
})

test("the order of a seed is fixed for all time: checkpoints rest on it", () => {
  expect(order(12, 42)).toEqual([3, 10, 0, 8, 6, 5, 1, 7, 11, 2, 9, 4])
})

test("each row comes first about equally often", () => {
  const counts = Array.from({ length: 8 }, () => 0)
  for (let seed = 0; seed < 8000; seed++) counts[permutation(8, seed, 0)(0)]!++
  // 1,000 expected each, standard deviation 30.
  for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(150)
})

describe("size", () => {
  test("the largest sizes stay inside", () => {
    const indexAt = permutation(2 ** 32, 7, 0)
    const some = new Set([0, 1, 2 ** 31, 2 ** 32 - 1].map(indexAt))
    expect(some.size).toBe(4)
    for (const index of some) expect(index >= 0 && index < 2 ** 32).toBeTrue()
  })

  test.each([0, -1, 1.5, 2 ** 32 + 1, Number.NaN])("%p is refused", (size) => {
    expect(() => permutation(size, 1, 0)).toThrow("cannot order")
  })
})
