import { describe, expect, test } from "bun:test"
import { CohortError } from "@cohort/errors"
import fc from "fast-check"
import { groupAdvantages } from "./group.ts"
import type { AdvantageOptions } from "./group.ts"

const trl: AdvantageOptions = { scale: "group", standardDeviation: "sample", epsilon: 1e-4 }
const advantagesOf = (groups: (number | null)[][], options: Partial<AdvantageOptions> = {}) =>
  groupAdvantages(groups, { ...trl, ...options }).map(({ advantages }) => [...advantages])

describe("groupAdvantages", () => {
  test("judges each group by itself", () => {
    const [first, second] = advantagesOf([[0, 1], [10, 11]])
    expect(first![1]).toBeCloseTo(Math.SQRT1_2, 3)
    expect(first![0]).toBeCloseTo(-Math.SQRT1_2, 3)
    expect(second).toEqual(first!)
  })

  test("rewards that only differ by rounding have no advantage", () => {
    const unanimous = [[0.1, 0.1, 0.1], Array.from({ length: 8 }, () => 0.1), [0.1 + 0.2, 0.3], [Math.fround(0.7), 0.7], [-1e6, -1e6 - 1e-10]]
    for (const scale of ["group", "batch", "none"] as const)
      for (const standardDeviation of ["sample", "population"] as const)
        for (const row of advantagesOf(unanimous, { scale, standardDeviation, epsilon: 1e-8 })) expect(row.every((value) => value === 0)).toBe(true)
  })

  test("small but real differences count", () => {
    const [row] = advantagesOf([[1e-9, 3e-9]], { epsilon: 0, standardDeviation: "population" })
    expect(row![0]).toBeCloseTo(-1, 12)
    expect(row![1]).toBeCloseTo(1, 12)
  })

  test("population and sample deviation", () => {
    expect(advantagesOf([[1, 3]], { standardDeviation: "population", epsilon: 0 })).toEqual([[-1, 1]])
    expect(advantagesOf([[1, 3]], { epsilon: 0 })[0]![1]).toBeCloseTo(Math.SQRT1_2, 12)
  })

  test("nulls leave mean and deviation; groups under two are dropped", () => {
    const groups = groupAdvantages([[1, null, 0, 0], [5, null], [null, null], []], trl)
    expect(groups.map(({ dropped, scored }) => [dropped, scored])).toEqual([[false, 3], [true, 1], [true, 0], [true, 0]])
    expect(groups[0]!.mean).toBeCloseTo(1 / 3, 12)
    expect(groups[0]!.advantages[1]).toBeNull()
    expect(groups[1]!.advantages).toEqual([null, null])
  })

  test("batch scale divides by the deviation of all kept rewards", () => {
    const [first] = advantagesOf([[0, 1], [10, 11], [99]], { scale: "batch", epsilon: 0, standardDeviation: "population" })
    const deviation = Math.sqrt(((0 - 5.5) ** 2 + (1 - 5.5) ** 2 + (10 - 5.5) ** 2 + (11 - 5.5) ** 2) / 4)
    expect(first![0]).toBeCloseTo(-0.5 / deviation, 12)
  })

  test("none only centres", () => {
    expect(advantagesOf([[0, 1, 5]], { scale: "none" })).toEqual([[-2, -1, 3]])
  })

  test("NaN and infinities are refused by place", () => {
    const refused = (): unknown => groupAdvantages([[0, 1], [1, Number.NaN]], trl)
    expect(refused).toThrow(CohortError)
    expect(refused).toThrow("reward of member 1 in group 1 is NaN")
    expect(() => groupAdvantages([[Infinity, 1]], trl)).toThrow("Infinity")
  })

  test("shifting a group's rewards by a constant changes nothing, and advantages sum to zero", () => {
    const rewards = fc.array(fc.integer({ min: -8, max: 8 }), { minLength: 2, maxLength: 12 })
    fc.assert(
      fc.property(rewards, fc.integer({ min: -100, max: 100 }), (group, shift) => {
        const [plain] = advantagesOf([group])
        const [shifted] = advantagesOf([group.map((reward) => reward + shift)])
        for (const [index, value] of plain!.entries()) expect(shifted![index]!).toBeCloseTo(value!, 9)
        expect(plain!.reduce<number>((sum, value) => sum + value!, 0)).toBeCloseTo(0, 9)
      }),
      { seed: 1, numRuns: 100 },
    )
  })
})
