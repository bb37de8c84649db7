import { expect, test } from "bun:test"
import fc from "fast-check"
import { mixedShareOf, passRateOf, type PromptOutcome } from "./pass-rate.ts"

const outcome = (passed: number, of: number, rest: Partial<PromptOutcome> = {}): PromptOutcome => ({
  id: "p", rewards: Array.from({ length: of }, (_, i) => (i < passed ? 1 : 0)), passed, truncated: 0, failed: 0, tokens: 10 * of, ...rest,
})

test("the chance of a mixed group is counted over all groups that the completions could form", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 4, maxLength: 7 }), fc.integer({ min: 2, max: 4 }), (rewards, size) => {
      const subsets = Array.from({ length: 2 ** rewards.length }, (_, bits) => rewards.filter((_, i) => (bits >> i) % 2 === 1)).filter(({ length }) => length === size)
      // Subsets of equal rewards were filtered by position, so each is one of C(n, G).
      const mixed = subsets.filter((group) => new Set(group).size > 1).length
      expect(mixedShareOf(rewards, size)).toBeCloseTo(mixed / subsets.length, 10)
    }),
    { seed: 2, numRuns: 50 },
  )
  expect(mixedShareOf([1, 0], 4)).toBeCloseTo(1 - 2 / 16)
  expect(mixedShareOf([1, 1, 1], 2)).toBe(0)
})

test("half solved: a signal, with what a step will hold", () => {
  const report = passRateOf(Array.from({ length: 10 }, () => outcome(8, 16)), { groupSize: 4, groupsPerStep: 8 })
  expect(report).toMatchObject({ prompts: 10, completions: 160, passRate: 0.5, neverPassed: 0, alwaysPassed: 0, tokensMean: 10, verdict: "signal", suggestedGroupSize: 4 })
  expect(report.usefulGroupsPerStep).toBeCloseTo(8 * (1 - (2 * 70) / 1820))
  expect(report.advice).toStartWith("GRPO will have a signal")
})

test("all wrong and all right are told apart; cut completions are named first", () => {
  const hard = passRateOf(Array.from({ length: 20 }, () => outcome(0, 8, { truncated: 6 })), { groupSize: 8, groupsPerStep: 4 })
  expect(hard).toMatchObject({ verdict: "none", neverPassed: 20, usefulGroupsPerStep: 0 })
  expect(hard.advice).toContain("solves almost none")
  expect(hard.advice).toContain("75 % of the completions are cut")
  const easy = passRateOf(Array.from({ length: 20 }, () => outcome(8, 8)), { groupSize: 8, groupsPerStep: 4 })
  expect(easy.advice).toContain("already solves")
})

test("rare successes ask for larger groups", () => {
  const report = passRateOf(Array.from({ length: 40 }, () => outcome(1, 16)), { groupSize: 2, groupsPerStep: 4 })
  expect(report).toMatchObject({ verdict: "weak", suggestedGroupSize: 16 })
  expect(report.advice).toContain("A group size of 16")
})

test("prompts that could not be scored are left out and counted; none at all is an error", () => {
  const report = passRateOf([outcome(1, 4), outcome(0, 1, { failed: 3 })], { groupSize: 4, groupsPerStep: 1 })
  expect(report).toMatchObject({ prompts: 1, failedShare: 3 / 8 })
  expect(() => passRateOf([outcome(0, 0, { failed: 4 })], { groupSize: 4, groupsPerStep: 1 })).toThrow("of 1 prompts none")
})
