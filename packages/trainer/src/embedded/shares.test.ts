import { expect, test } from "bun:test"
import { sharesOf } from "./shares.ts"

test("every index once, shares about equal, no share empty", () => {
  const sizes = [2048, 512, 1, 3072, 1536, 1, 512, 3072, 1536]
  for (const parts of [1, 2, 3, 4, 20]) {
    const shares = sharesOf(sizes, parts)
    expect(shares).toHaveLength(Math.min(parts, sizes.length))
    expect(shares.flat().toSorted((a, b) => a - b)).toEqual([...sizes.keys()])
    expect(shares.every((share) => share.length > 0)).toBe(true)
  }
  const totals = sharesOf(sizes, 2).map((share) => share.reduce((sum, index) => sum + sizes[index]!, 0))
  expect(Math.max(...totals) / Math.min(...totals)).toBeLessThan(1.1)
})
