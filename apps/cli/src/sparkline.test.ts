import { expect, test } from "bun:test"
import fc from "fast-check"
import { sparkline } from "./sparkline.ts"

test("spans the range", () => {
  expect(sparkline([0, 0.5, 1], 3)).toBe("▁▅█")
  expect(sparkline([-1, Number.NaN, 1], 8)).toBe("▁ █")
  expect(sparkline([3, 3], 8)).toBe("▁▁")
  expect(sparkline([], 8)).toBe("")
})

test("a long series is averaged, its rise stays", () => {
  expect(sparkline(Array.from({ length: 800 }, (_, i) => i), 8)).toBe("▁▂▃▄▅▆▇█")
})

test("never wider than asked, whatever comes in", () => {
  fc.assert(
    fc.property(fc.array(fc.double()), fc.integer({ min: 1, max: 30 }), (values, width) => {
      expect([...sparkline(values, width)].length).toBeLessThanOrEqual(width)
    }),
    { seed: 3, numRuns: 200 },
  )
})
