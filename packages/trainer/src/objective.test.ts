import { expect, test } from "bun:test"
import type { Sample } from "@cohort/batching"
import { resolveConfig, type RunConfig, type RunConfigInput } from "@cohort/config"
import type { SampleGroup } from "@cohort/rollout"
import { advantageRule, entropyAfter, objectiveOf, startEntropy, windowSamples } from "./objective.ts"

const configWith = (objective: NonNullable<RunConfigInput["objective"]>) =>
  resolveConfig({ model: { path: "m" }, data: { source: "env-arithmetic" }, rewards: ["reward-math", { use: "reward-format", weight: 0.5 }], objective })

const rewards = [{ name: "reward-math", weight: 1 }, { name: "reward-format", weight: 0.5 }]
const samplesOf = (config: RunConfig, groups: readonly SampleGroup[], kl?: ReadonlyMap<string, number>): Sample[] => windowSamples(config, groups, { rewards, kl })

function group(id: string, rewards: readonly number[], parts: readonly Readonly<Record<string, number>>[] = rewards.map((reward) => ({ "reward-math": reward }))): SampleGroup {
  const sample = (member: number, row: number): Sample => ({
    id: `${id}.${member}/${row}`, groupId: id, rolloutId: `${id}.${member}`, tokenIds: Int32Array.of(1, 2), lossMask: Uint8Array.of(0, 1),
    behaviorLogProbs: Float32Array.of(0, -1), versions: Int32Array.of(-1, 0), advantage: 0, weight: 1, truncated: member === 0,
  })
  const samples = rewards.flatMap((_, member) => (member === 0 ? [sample(0, 0), sample(0, 1)] : [sample(member, 0)]))
  return {
    id, occurrence: 0, row: { id, prompt: "p" }, samples, rewards, rolloutIds: rewards.map((_, member) => `${id}.${member}`), memberParts: parts, rewardMean: 0, rewardParts: {}, rewardSpread: 0, oldestVersion: 0,
    trainedTokens: samples.length, completionTokens: samples.length, truncatedShare: 0, startedAtMs: 0, queuedAtMs: 0,
  }
}

test("group advantages are the rule's, and the window leaves them", () => {
  expect(advantageRule(configWith({ advantageScale: "none" }))([3, 1])).toEqual([1, -1])
  expect(advantageRule(configWith({ advantage: "rloo" }))([1, 0, 0])).toEqual([1, -0.5, -0.5])
  const config = configWith({})
  const groups = [group("a", [1, 0])]
  expect(samplesOf(config, groups)).toEqual([...groups[0]!.samples])
})

test("batch scaling divides by the deviation of all rewards of the step, on every row of a rollout", () => {
  const config = configWith({ advantageScale: "batch", standardDeviation: "population", advantageEpsilon: 0 })
  // Until the window is complete: the distance from the mean, so that a group with a signal is told from one without.
  expect(advantageRule(config)([4, 0])).toEqual([2, -2])
  // Rewards 6, 0, 3, 3: mean 3, population deviation sqrt(4.5) = 2.1213; both groups are centred on 3.
  const advantages = samplesOf(config, [group("a", [6, 0]), group("b", [3, 3])]).map((sample) => sample.advantage)
  const unit = Math.SQRT2
  for (const [i, expected] of [unit, unit, -unit, 0, 0, 0].entries()) expect(advantages[i]!).toBeCloseTo(expected, 5)
})

test("a KL lowers rewards before their advantages; a rollout without one leaves its group's mean", () => {
  const config = configWith({ advantage: "rloo", klCoefficient: 0.5, klIn: "reward" })
  expect(advantageRule(config)([3, 1])).toEqual([1, -1])
  const advantages = samplesOf(config, [group("a", [1, 1, 1])], new Map([["a.0", 1], ["a.2", 3]])).map((sample) => sample.advantage)
  // Rewards 0.5 and -0.5; the first rollout has two rows.
  expect(advantages).toEqual([1, 1, 0, -1])
})

test("advantages of the window find their rollout where one before it has no row left", () => {
  const whole = group("a", [6, 0])
  const [, , last] = samplesOf(configWith({ advantageScale: "batch" }), [whole])
  const left = { ...whole, samples: whole.samples.slice(2) }
  expect(samplesOf(configWith({ advantageScale: "batch" }), [left]).map((sample) => sample.advantage)).toEqual([last!.advantage])
})

test("gdpo normalises each reward by itself with its weight", () => {
  const config = configWith({ advantage: "gdpo" })
  const parts = [{ "reward-math": 1, "reward-format": 0 }, { "reward-math": 0, "reward-format": 1 }]
  const [first, , second] = samplesOf(config, [group("a", [1, 0.5], parts)]).map((sample) => sample.advantage)
  expect(first!).toBeGreaterThan(0)
  expect(second!).toBeCloseTo(-first!, 5)
})

test("gdpo takes each reward with its weight, whatever it is called, and an environment's own beside them", () => {
  const config = configWith({ advantage: "gdpo" })
  const parts = [{ "judges/style": 1, "judges/style/tone": 9 }, { "judges/style": 0, environment: 0 }, { "judges/style": 0, environment: 1 }]
  const of = (weight: number): number[] => windowSamples(config, [group("a", [1, 0, 1], parts)], { rewards: [{ name: "judges/style", weight }] }).slice(1).map((sample) => sample.advantage)
  // Style: (2, -1, -1) / sqrt(3) x weight. Environment, of the last two only: -+1 / sqrt(2).
  const plain = (weight: number): number[] => {
    const sums = [(2 * weight) / Math.sqrt(3), -weight / Math.sqrt(3) - Math.SQRT1_2, -weight / Math.sqrt(3) + Math.SQRT1_2]
    const deviation = Math.sqrt(sums.reduce((sum, value) => sum + value ** 2, 0) / 2)
    return sums.map((value) => value / deviation)
  }
  for (const weight of [1, 3]) for (const [at, value] of of(weight).entries()) expect(value).toBeCloseTo(plain(weight)[at]!, 2)
})

test("truncated completions are masked only when the config says so", () => {
  const trained = (maskTruncated: boolean): number[] => samplesOf(configWith({ maskTruncated }), [group("a", [1, 0])]).map((sample) => sample.lossMask[1]!)
  expect(trained(false)).toEqual([1, 1, 1])
  expect(trained(true)).toEqual([0, 0, 1])
})

test("the spec carries what the section says, with the window's normalizer", () => {
  const config = configWith({ kind: "grpo", epsilonHigh: 0.28, delta: 2, klCoefficient: 0.1, correction: "token_truncate", correctionMax: 2 })
  expect(objectiveOf(config, { trainedTokens: 100, completions: 8 }, startEntropy(config))).toMatchObject({
    kind: "grpo", epsilonLow: 0.2, epsilonHigh: 0.28, delta: 2, normalizer: 8, klCoefficient: 0.1, klEstimator: "k3", correction: { mode: "token_truncate", max: 2 },
  })
})

test("an adaptive entropy bonus acts from the step after the entropy fell under its target", () => {
  const config = configWith({ entropyAdaptive: true, entropyTarget: 0.5, entropyDelta: 0.1 })
  const totals = { trainedTokens: 10, completions: 2 }
  const start = startEntropy(config)
  expect(objectiveOf(config, totals, start).entropyCoefficient).toBe(0)
  expect(objectiveOf(config, totals, entropyAfter(config, start, 0.2)).entropyCoefficient).toBeCloseTo(0.1)
  expect(entropyAfter(configWith({}), start, 0.2)).toEqual(start)
})
