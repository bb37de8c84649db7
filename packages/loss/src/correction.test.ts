import { describe, expect, test } from "bun:test"
import { evaluate, spec } from "../test/evaluate.ts"
import type { Case } from "../test/evaluate.ts"
import type { CorrectionSpec } from "./objective.ts"

/** One row of `tokens` on-policy tokens whose sampler log-probs are lower by `gap` each, and another without a gap. */
function gapped(tokens: number, gap: number): Case {
  const row = (value: number): number[] => Array.from({ length: tokens }, () => value)
  return {
    rows: 2,
    length: tokens,
    logProbs: [...row(-1), ...row(-1)],
    behavior: [...row(-1 - gap), ...row(-1)],
    advantages: [...row(1), ...row(1)],
    mask: [...row(1), ...row(1)],
  }
}

const corrected = (correction: CorrectionSpec, batch: Case) => evaluate(spec({ correction }), batch)

describe("the sampler correction", () => {
  test("a masked row keeps its raw ratio visible and is counted", () => {
    const { gradient, metrics } = corrected({ mode: "sequence_mask", max: 4 }, gapped(75, 0.02))
    expect(metrics.correctionMax).toBeCloseTo(4.4817, 3)
    expect(metrics.maskedSum).toBe(75)
    expect(metrics.correctionSum).toBeCloseTo(75, 4)
    expect(gradient.slice(0, 75).every((value) => Math.abs(value) === 0)).toBe(true)
    expect(gradient[75]).toBeCloseTo(-1, 6)
  })

  test("truncation bounds the weight and never differentiates it", () => {
    const { gradient, metrics } = corrected({ mode: "sequence_truncate", max: 3 }, gapped(75, 0.02))
    expect(gradient[0]).toBeCloseTo(-3, 5)
    expect(metrics.correctionSum).toBeCloseTo(75 * 3 + 75, 3)
    expect(corrected({ mode: "token_truncate", max: 3 }, gapped(4, 0.5)).gradient[0]).toBeCloseTo(-Math.exp(0.5), 5)
  })

  test("the geometric mask judges by the mean, so length does not decide, and does not weigh what it keeps", () => {
    const rule: CorrectionSpec = { mode: "geometric_mask", min: 0.95, max: 1.05 }
    expect(corrected(rule, gapped(75, 0.02)).gradient[0]).toBeCloseTo(-1, 6)
    expect(corrected(rule, gapped(4, 0.2)).metrics.maskedSum).toBe(4)
  })

  test("a token without a behaviour log-prob has weight 1", () => {
    const batch = { ...gapped(2, 0.5), behavior: [Number.NaN, -1.5, -1, -1], proximal: [-2, -1, -1, -1] }
    const { metrics } = corrected({ mode: "token_truncate", max: 3 }, batch)
    expect(metrics.correctionSum).toBeCloseTo(3 + Math.exp(0.5), 5)
  })

  test("without proximal log-probs the policy ratio is 1, with them it is theirs", () => {
    const rule: CorrectionSpec = { mode: "token_truncate", max: 3 }
    expect(corrected(rule, gapped(4, 0.5)).metrics.ratioMax).toBeCloseTo(1, 6)
    const stepped = { ...gapped(1, 0.5), proximal: [-1.1, -1.1] }
    expect(corrected(rule, stepped).metrics.ratioMax).toBeCloseTo(Math.exp(0.1), 5)
  })
})

test("the off-policy mask leaves out far rows with a negative advantage only", () => {
  const objective = spec({ offPolicyThreshold: 0.1 })
  const drifted = { ...gapped(3, -0.5), advantages: [-1, -1, -1, -1, -1, -1] }
  const { gradient, metrics } = evaluate(objective, drifted)
  expect(metrics.maskedSum).toBe(3)
  expect(gradient.slice(0, 3).every((value) => Math.abs(value) === 0)).toBe(true)
  expect(evaluate(objective, gapped(3, -0.5)).metrics.maskedSum).toBe(0)
})

test("the entropy mask and the entropy's own gradient", () => {
  const batch = { ...gapped(2, 0), entropy: [0.1, 2, 0.5, 1] }
  const { gradient, entropyGradient, metrics } = evaluate(spec({ entropyThreshold: 1, entropyCoefficient: 0.1, windowTokens: 2 }), batch)
  expect(gradient.map((value) => Math.abs(value))).toEqual([0, 1, 0, 1])
  expect(entropyGradient!.map((value) => Math.fround(value))).toEqual([0, -0.05, 0, -0.05].map((value) => expect.closeTo(value, 6)))
  expect(metrics.maskedSum).toBe(2)
})
