import { describe, expect, test } from "bun:test"
import * as tf from "@tensorflow/tfjs-core"
import { spec } from "../test/evaluate.ts"
import { entropyThreshold, topEntropy } from "./entropy.ts"
import { windowNormalizer } from "./normalizer.ts"
import { policyObjective } from "./policy-objective.ts"
import { objectiveKey, objectiveNeeds, objectiveScalars } from "./scalars.ts"

describe("objectiveScalars and objectiveKey", () => {
  test("numbers do not change the key, structure does", () => {
    const base = spec({ delta: 2, klCoefficient: 0.1 })
    expect(objectiveKey({ ...base, normalizer: 99, epsilonLow: 0.1, delta: 3, klCoefficient: 0.2 })).toBe(objectiveKey(base))
    const others = [spec(), spec({ kind: "grpo" }), spec({ klCoefficient: 0.1, delta: 2, klEstimator: "k2" }), spec({ klCoefficient: 0.1, delta: 2, klUnbiased: true })]
    for (const other of others) expect(objectiveKey(other)).not.toBe(objectiveKey(base))
    expect(Object.keys(objectiveScalars(base))).toEqual(["normalizer", "epsilonLow", "epsilonHigh", "delta", "klCoefficient"])
  })

  test("contradictions are refused with the field's name", () => {
    expect(() => objectiveScalars(spec({ normalizer: 0 }))).toThrow("normalizer is 0")
    expect(() => objectiveScalars(spec({ normalizer: Number.NaN }))).toThrow("normalizer is NaN")
    expect(() => objectiveScalars(spec({ delta: 1.2 }))).toThrow("delta 1.2 is not above")
    expect(() => objectiveScalars(spec({ entropyCoefficient: 0.1 }))).toThrow("needs windowTokens")
    expect(() => objectiveScalars(spec({ correction: { mode: "token_mask" } }))).toThrow("no bound")
    expect(() => objectiveScalars(spec({ correction: { mode: "token_mask", min: 2, max: 1 } }))).toThrow("min 2 is not under max 1")
    expect(() => objectiveScalars(spec({ kind: "vespo", correction: { mode: "sequence_mask", max: 2 } }))).toThrow("token corrections only")
  })

  test("missing inputs are named", () => {
    const vector = tf.tensor1d([0])
    const inputs = { rows: 1, length: 1, logProbs_N: vector, behaviorLogProbs_N: vector, advantages_N: vector, weights_N: vector, mask_N: vector, scalars: {} }
    const kl = spec({ klCoefficient: 0.1, entropyThreshold: 1 })
    expect(objectiveNeeds(kl)).toEqual({ entropy: true, reference: true, proximal: false })
    expect(() => policyObjective(kl, inputs)).toThrow("needs entropy_N and referenceLogProbs_N")
    expect(() => tf.tidy(() => policyObjective(spec(), inputs).loss)).toThrow("got no scalar epsilonLow")
  })
})

test("the normalizer is never under 1", () => {
  const nothing = { trainedTokens: 0, completions: 0, maxCompletionTokens: 10 }
  for (const kind of ["grpo", "dapo", "dr_grpo", "luspo"] as const) expect(windowNormalizer(kind, nothing)).toBe(1)
})

test("entropyThreshold interpolates like torch.quantile and refuses what has no answer", () => {
  expect(entropyThreshold([1.4, 0.1, 0.9, 0.2], 0.25)).toBeCloseTo(1.025, 12)
  expect(entropyThreshold([3, 1], 1)).toBe(1)
  expect(() => entropyThreshold([1], 0)).toThrow("is 0")
  expect(() => entropyThreshold([], 0.5)).toThrow("no entropies")
  expect(() => entropyThreshold([1, Number.NaN], 0.5)).toThrow("NaN")
})

test("topEntropy takes the tokens at or above the quantile, with room for rounding on both sides", () => {
  expect(topEntropy([1.4, 0.1, 0.9, 0.2], 0.25)).toEqual({ threshold: 1.15, tokens: 1 })
  // The quantile is a token's own entropy: it is in, and so is its equal.
  expect(topEntropy([4, 1, 2, 3, 3], 0.5)).toEqual({ threshold: 2.5, tokens: 3 })
  expect(topEntropy([0, 0, 0], 0.1)).toEqual({ threshold: -1, tokens: 3 })
  expect(topEntropy([2, 1], 1)).toEqual({ threshold: -1, tokens: 2 })
})
