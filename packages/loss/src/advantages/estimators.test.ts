import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { gdpoAdvantages } from "./gdpo.ts"
import { reinforcePlusPlusAdvantages } from "./reinforce-plus-plus.ts"
import type { ReinforcePlusPlusOptions } from "./reinforce-plus-plus.ts"
import { rlooAdvantages } from "./rloo.ts"

const plusPlus: ReinforcePlusPlusOptions = { baseline: "group", standardDeviation: "population", epsilon: 0 }
const gdpo = { weights: [1, 1], standardDeviation: "sample", epsilon: 1e-4 } as const

describe("rlooAdvantages", () => {
  test("is the reward less the mean of the others", () => {
    const rewards = [1, 0, 3, null, 2]
    const [group] = rlooAdvantages([rewards])
    const scored = rewards.filter((reward) => reward !== null)
    for (const [member, reward] of rewards.entries()) {
      if (reward === null) expect(group!.advantages[member]).toBeNull()
      else {
        const others = scored.reduce((sum, value) => sum + value, 0) - reward
        expect(group!.advantages[member]!).toBeCloseTo(reward - others / (scored.length - 1), 12)
      }
    }
  })

  test("unanimous groups get exact zeros, lone members none", () => {
    const groups = rlooAdvantages([[0.1, 0.1, 0.1], [1, null]])
    expect(groups[0]!.advantages).toEqual([0, 0, 0])
    expect(groups[1]).toMatchObject({ dropped: true, advantages: [null, null] })
  })
})

describe("reinforcePlusPlusAdvantages", () => {
  test("have mean 0 and deviation 1 over the batch, whatever the groups", () => {
    const groups = fc.array(fc.array(fc.integer({ min: -5, max: 5 }), { minLength: 2, maxLength: 5 }), { minLength: 2, maxLength: 5 })
    fc.assert(
      fc.property(groups, fc.constantFrom("none", "group"), (rewards, baseline) => {
        const advantages = reinforcePlusPlusAdvantages(rewards, { ...plusPlus, baseline }).flatMap((group) => group.advantages.map((value) => value!))
        const mean = advantages.reduce((sum, value) => sum + value, 0) / advantages.length
        const square = advantages.reduce((sum, value) => sum + value ** 2, 0) / advantages.length
        expect(mean).toBeCloseTo(0, 9)
        if (square > 0) expect(square).toBeCloseTo(1, 9)
      }),
      { seed: 2, numRuns: 60 },
    )
  })

  test("an unanimous group has no advantage with a group baseline, but has one against the batch", () => {
    const rewards = [[1, 1], [0, 2]]
    expect(reinforcePlusPlusAdvantages(rewards, plusPlus)[0]!.advantages).toEqual([0, 0])
    const [wins] = reinforcePlusPlusAdvantages([[1, 1], [0, 0]], { ...plusPlus, baseline: "none" })
    expect(wins!.advantages).toEqual([1, 1])
  })

  test("a lone member is kept only without a group baseline", () => {
    const lone = [[5, null], [1, 2]]
    expect(reinforcePlusPlusAdvantages(lone, plusPlus).map(({ dropped }) => dropped)).toEqual([true, false])
    expect(reinforcePlusPlusAdvantages(lone, { ...plusPlus, baseline: "none" }).map(({ dropped }) => dropped)).toEqual([false, false])
  })

  test("a batch without spread, and NaN", () => {
    expect(reinforcePlusPlusAdvantages([[0.1, 0.1], [0.1]], { ...plusPlus, baseline: "none" }).map(({ advantages }) => [...advantages])).toEqual([[0, 0], [0]])
    expect(() => reinforcePlusPlusAdvantages([[Number.NaN]], plusPlus)).toThrow("member 0 in group 0 is NaN")
  })
})

describe("gdpoAdvantages", () => {
  test("a reward of a thousand times the scale weighs the same", () => {
    const small = gdpoAdvantages([[[1, 0.2], [0, 0.9], [1, 0.4]]], { ...gdpo, epsilon: 0 })
    const large = gdpoAdvantages([[[1000, 0.2], [0, 0.9], [1000, 0.4]]], { ...gdpo, epsilon: 0 })
    for (const [member, value] of small[0]!.advantages.entries()) expect(large[0]!.advantages[member]!).toBeCloseTo(value!, 9)
  })

  test("a reward that one member alone has adds nothing; no score at all is no advantage", () => {
    const [group] = gdpoAdvantages([[[1, 7], [0, null], [null, null], [0, null]]], gdpo)
    const [without] = gdpoAdvantages([[[1, null], [0, null], [null, null], [0, null]]], gdpo)
    expect(group!.advantages[2]).toBeNull()
    expect(group!.advantages).toEqual(without!.advantages)
  })

  test("wrong widths and NaN are refused by place", () => {
    expect(() => gdpoAdvantages([[[1]]], gdpo)).toThrow("member 0 in group 0 has 1 scores for 2 reward weights")
    expect(() => gdpoAdvantages([[[1, 2], [1, Number.NaN]]], gdpo)).toThrow("reward 1 of member 1 in group 0 is NaN")
  })
})
