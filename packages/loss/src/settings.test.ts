import { describe, expect, test } from "bun:test"
import { evaluate, spec } from "../test/evaluate.ts"
import { adaptEntropy, appliedEntropyCoefficient } from "./entropy-control.ts"
import { summarizeMetrics } from "./definitions.ts"
import { completionKl } from "./kl-reward.ts"
import { moveReference, referenceMoves } from "./reference.ts"
import { advantageScope, advantagesOf } from "./advantages/rule.ts"
import type { AdvantageSettings } from "./advantages/rule.ts"
import { objectiveDemands, objectiveSpec } from "./settings.ts"
import type { ObjectiveSettings } from "./settings.ts"
import { objectiveKey, objectiveNeeds, objectiveScalars } from "./scalars.ts"

const settings: ObjectiveSettings = {
  kind: "dapo", level: "auto", oldPolicy: "auto", epsilonLow: 0.2, epsilonHigh: 0.28, klCoefficient: 0, klEstimator: "k3", klUnbiased: true, klIn: "loss",
  entropyCoefficient: 0, entropyAdaptive: false, entropyTarget: 0.2, entropyDelta: 0.005, entropyMin: 0, entropyMax: 1, topEntropyShare: 1,
  correction: "none", correctionMax: 3, sapoTemperaturePositive: 1, sapoTemperatureNegative: 1.05,
  vespoKPositive: 2, vespoLambdaPositive: 3, vespoKNegative: 3, vespoLambdaNegative: 2,
}
const window = { trainedTokens: 100, completions: 8, maxCompletionTokens: 64, temperature: 0.7 }

describe("objectiveSpec", () => {
  test("what is off leaves no trace, so it costs nothing", () => {
    expect(objectiveSpec(settings, window)).toEqual({ kind: "dapo", epsilonLow: 0.2, epsilonHigh: 0.28, temperature: 0.7, normalizer: 100 })
    expect(objectiveDemands(settings)).toEqual({ referenceInLoss: false, referenceInReward: false, proximal: false, windowEntropies: false, entropyControl: undefined })
  })

  test("every setting arrives", () => {
    const all = objectiveSpec(
      { ...settings, kind: "grpo", level: "sequence", delta: 2, klCoefficient: 0.1, klEstimator: "k2", entropyCoefficient: 0.01, topEntropyShare: 0.2, correction: "token_mask", correctionMin: 0.5, offPolicyThreshold: 0.4 },
      { ...window, topEntropy: { threshold: 1.5, tokens: 20 } },
    )
    expect(all).toEqual({
      kind: "grpo", level: "sequence", epsilonLow: 0.2, epsilonHigh: 0.28, temperature: 0.7, normalizer: 8, delta: 2, klCoefficient: 0.1, klEstimator: "k2", klUnbiased: true,
      entropyCoefficient: 0.01, windowTokens: 20, entropyThreshold: 1.5, correction: { mode: "token_mask", min: 0.5, max: 3 }, offPolicyThreshold: 0.4,
    })
    expect(Object.keys(objectiveScalars(all))).toContain("offPolicyThreshold")
    expect(objectiveSpec({ ...settings, kind: "sapo", sapoTemperaturePositive: 2 }, window).sapo).toEqual({ temperaturePositive: 2, temperatureNegative: 1.05 })
    expect(objectiveSpec({ ...settings, kind: "vespo", vespoKNegative: 4 }, window).vespo?.kNegative).toBe(4)
  })

  test("a KL in the reward is none in the loss; decoupled PPO reads the proximal policy", () => {
    const inReward = { ...settings, klCoefficient: 0.1, klIn: "reward" } as const
    expect(objectiveSpec(inReward, window).klCoefficient).toBeUndefined()
    expect(objectiveDemands(inReward)).toMatchObject({ referenceInLoss: false, referenceInReward: true })
    const decoupled = objectiveSpec({ ...settings, oldPolicy: "proximal" }, window)
    expect(objectiveNeeds(decoupled).proximal).toBe(true)
    expect(objectiveKey(decoupled)).not.toBe(objectiveKey(objectiveSpec(settings, window)))
  })

  test("an adaptive bonus stays in the compiled step while its coefficient is 0", () => {
    const adaptive = objectiveSpec({ ...settings, entropyAdaptive: true }, { ...window, entropyCoefficient: 0 })
    expect(adaptive).toMatchObject({ entropyCoefficient: 0, windowTokens: 100 })
  })
})

test("old log-probs of the trainer are apart from the sampler's", () => {
  const batch = { rows: 1, length: 1, logProbs: [-1], behavior: [-1.5], proximal: [-1.1], advantages: [1], mask: [1] }
  expect(evaluate(spec({ epsilonHigh: 9 }), batch).gradient[0]).toBeCloseTo(-Math.exp(0.5), 5)
  const apart = evaluate(spec({ epsilonHigh: 9, oldPolicy: "proximal" }), batch)
  expect(apart.gradient[0]).toBeCloseTo(-Math.exp(0.1), 5)
  // Measured all the same.
  expect(summarizeMetrics(apart.metrics)["offpolicy/ratio_max"]).toBeCloseTo(Math.exp(0.5), 5)
  expect(() => evaluate(spec({ oldPolicy: "behavior", correction: { mode: "token_mask", max: 2 } }), batch)).toThrow("ratio to the proximal policy")
})

test("level overrides the kind's ratio where it has one to choose", () => {
  const batch = { rows: 1, length: 2, logProbs: [-1, -1], behavior: [-1.2, -1.6], advantages: [1, 1], mask: [1, 1] }
  const grpo = evaluate(spec({ kind: "grpo", level: "sequence" }), batch)
  expect(grpo.gradient).toEqual(evaluate(spec({ kind: "gspo" }), batch).gradient)
  expect(() => evaluate(spec({ kind: "gspo", level: "token" }), batch)).toThrow("gspo has the ratio level sequence, not token")
  expect(() => evaluate(spec({ kind: "cispo", delta: 4 }), batch)).toThrow("cispo does not clip")
})

test("clip extremes are over completions, effective sample size over tokens", () => {
  const up = Math.log(2)
  const metrics = summarizeMetrics(
    evaluate(spec(), { rows: 3, length: 2, logProbs: [-1, -1, -1, -1, -1, 0], behavior: [-1 - up, -1 - up, -1 - up, -1, -1, 0], advantages: [1, 1, 1, 1, 1, 1], mask: [1, 1, 1, 1, 1, 0] }).metrics,
  )
  expect(metrics["clip/high"]).toBeCloseTo(3 / 5, 6)
  expect(metrics["clip/high_max"]).toBeCloseTo(1, 6)
  expect(metrics["clip/high_min"]).toBeCloseTo(0, 6)
  expect(metrics["clip/low_max"]).toBe(0)
  expect(metrics["clip/region"]).toBeCloseTo(3 / 5, 6)
  expect(metrics["offpolicy/ess"]).toBeCloseTo((2 + 2 + 2 + 1 + 1) ** 2 / (5 * (4 + 4 + 4 + 1 + 1)), 5)
})

test("loss parts add up", () => {
  const batch = { rows: 1, length: 2, logProbs: [-1, -0.5], behavior: [-1.2, -0.6], reference: [-2, -1], entropy: [0.4, 0.8], advantages: [1, 1], mask: [1, 1] }
  const { loss, metrics } = evaluate(spec({ klCoefficient: 0.1, entropyCoefficient: 0.2, windowTokens: 2 }), batch)
  expect(metrics.entropyBonus).toBeCloseTo(0.2 * 0.6, 6)
  expect(metrics.klLoss).toBeGreaterThan(0)
  expect(metrics.policyLoss + metrics.klLoss - metrics.entropyBonus).toBeCloseTo(loss, 6)
})

describe("advantagesOf", () => {
  const base: AdvantageSettings = { advantage: "group", advantageScale: "group", standardDeviation: "sample" }

  test("names lead to their estimator; epsilon follows the deviation", () => {
    const groups = [{ totals: [1, 0] }, { totals: [4, 0] }]
    expect(advantagesOf(groups, base)[0]!.advantages[0]).toBeCloseTo(0.5 / (Math.SQRT1_2 + 1e-4), 12)
    expect(advantagesOf(groups, { ...base, standardDeviation: "population" })[0]!.advantages[0]).toBeCloseTo(0.5 / (0.5 + 1e-8), 12)
    expect(advantagesOf(groups, { ...base, advantage: "rloo" })[1]!.advantages).toEqual([4, -4])
    expect(advantagesOf(groups, { ...base, advantage: "reinforce++" })[0]!.advantages[0]).toBeLessThan(0)
    expect(advantagesOf(groups, { ...base, advantage: "reinforce++baseline" })[0]!.advantages[0]).toBeGreaterThan(0)
    expect(advantagesOf([{ totals: [1, 0], parts: [[1, 0], [0, 0]] }], { ...base, advantage: "gdpo" }, [1, 1])[0]!.advantages[0]).toBeGreaterThan(0)
  })

  test("a member without a total takes no part in gdpo, and parts must be there", () => {
    const [group] = advantagesOf([{ totals: [1, 0, null], parts: [[1], [0], [9]] }], { ...base, advantage: "gdpo" }, [1])
    expect(group!.advantages[2]).toBeNull()
    expect(() => advantagesOf([{ totals: [1, 0] }], { ...base, advantage: "gdpo" }, [1])).toThrow("0 lists of rewards for 2 completions")
  })

  test("scope says when the whole step must be known", () => {
    expect(advantageScope(base)).toBe("group")
    expect(advantageScope({ ...base, advantageScale: "none" })).toBe("group")
    expect(advantageScope({ ...base, advantageScale: "batch" })).toBe("window")
    expect(advantageScope({ ...base, advantage: "rloo", advantageScale: "batch" })).toBe("group")
    for (const advantage of ["reinforce++", "reinforce++baseline", "gdpo"] as const) expect(advantageScope({ ...base, advantage })).toBe("window")
  })
})

test("the entropy controller rises under the target, falls above, and acts only after a low entropy was measured", () => {
  const rule = { target: 0.2, delta: 0.005, min: 0, max: 0.012 }
  let state = { coefficient: 0.004, lastEntropy: null as number | null }
  expect(appliedEntropyCoefficient(state, rule)).toBe(0)
  state = adaptEntropy(state, 0.2, rule)
  expect(state.coefficient).toBeCloseTo(0.009, 12)
  expect(appliedEntropyCoefficient(state, rule)).toBe(state.coefficient)
  state = adaptEntropy(state, 0.1, rule)
  expect(state.coefficient).toBe(0.012)
  state = adaptEntropy(adaptEntropy(adaptEntropy(state, 0.3, rule), 0.3, rule), 0.3, rule)
  expect(state.coefficient).toBe(0)
  expect(appliedEntropyCoefficient(state, rule)).toBe(0)
  expect(() => adaptEntropy(state, Number.NaN, rule)).toThrow("NaN")
})

test("a moving reference follows the policy at its steps", () => {
  expect([0, 1, 2, 3, 4].filter((step) => referenceMoves(step, { everySteps: 2, mix: 0.6 }))).toEqual([2, 4])
  const reference = Float32Array.of(0, 1)
  moveReference(reference, Float32Array.of(1, 1), 0.5)
  expect([...reference]).toEqual([0.5, 1])
  expect(() => moveReference(reference, Float32Array.of(1), 0.5)).toThrow("2 values for a policy of 1")
})

test("the KL of a completion counts trained tokens with a log-prob only", () => {
  const tokens = { policy: [-1, -1, Number.NaN, -1], reference: [-2, -1.5, -1, -9], mask: [1, 1, 1, 0] }
  expect(completionKl(tokens, "k1")).toBeCloseTo(1.5, 12)
  expect(completionKl(tokens, "k2")).toBeCloseTo(0.5 + 0.125, 12)
  expect(completionKl(tokens, "k3")).toBeCloseTo(Math.exp(-1) + Math.exp(-0.5) - 2 + 1.5, 12)
  expect(() => completionKl({ ...tokens, mask: [1] }, "k1")).toThrow("1 mask entries")
})
