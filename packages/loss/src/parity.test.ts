// Objectives and advantages against goldens made by TRL's own loss function and PyTorch (test/parity/objectives/make.py).
import { describe, expect, test } from "bun:test"
import { evaluate } from "../test/evaluate.ts"
import { gdpoAdvantages } from "./advantages/gdpo.ts"
import { groupAdvantages } from "./advantages/group.ts"
import type { AdvantageOptions } from "./advantages/group.ts"
import { summarizeMetrics } from "./definitions.ts"
import { entropyThreshold } from "./entropy.ts"
import type { ObjectiveSpec } from "./objective.ts"

type Grid = readonly (readonly number[])[]
type GoldenSpec = Partial<ObjectiveSpec> & Pick<ObjectiveSpec, "kind"> & { readonly topEntropyShare?: number }

interface GoldenInputs {
  readonly logProbs: Grid
  readonly behavior: Grid
  readonly proximal: Grid
  readonly reference: Grid
  readonly entropy: Grid
  readonly advantages: readonly number[]
  readonly mask: Grid
}

interface GoldenCase {
  readonly source: "trl" | "torch"
  readonly inputs: number
  readonly spec: GoldenSpec
  readonly normalizer: number
  readonly loss: number
  readonly gradient: readonly number[]
  readonly entropyGradient?: readonly number[]
  readonly metrics?: Readonly<Record<string, number>>
}

interface Goldens {
  readonly rows: number
  readonly length: number
  readonly epsilonLow: number
  readonly epsilonHigh: number
  readonly inputs: readonly GoldenInputs[]
  readonly cases: readonly GoldenCase[]
  readonly advantages: readonly (AdvantageOptions & { readonly rewards: (number | null)[][]; readonly advantages: (number | null)[][] })[]
  readonly gdpo: { readonly scores: (number | null)[][][]; readonly weights: number[]; readonly advantages: number[][] }
}

const goldens: Goldens = await Bun.file(new URL("../../../test/parity/objectives/goldens.json", import.meta.url)).json()

/** Within 1e-5 of the expected value, or of the vector's largest entry times 1e-6 where float32 rounding of a sum decides. */
function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual).toHaveLength(expected.length)
  const floor = 1e-6 * Math.max(...expected.map(Math.abs))
  for (const [index, value] of expected.entries())
    if (!(Math.abs(actual[index]! - value) <= 1e-5 * Math.abs(value) + floor)) expect(actual).toEqual(expected as number[])
}

function specOf(golden: GoldenCase, inputs: GoldenInputs): ObjectiveSpec {
  const { topEntropyShare, ...rest } = golden.spec
  const trained = inputs.entropy.flat().filter((_, index) => inputs.mask.flat()[index] === 1)
  const threshold = topEntropyShare === undefined ? undefined : Math.fround(entropyThreshold(trained, topEntropyShare))
  const active = threshold === undefined ? trained.length : trained.filter((entropy) => Math.fround(entropy) >= threshold).length
  return {
    epsilonLow: goldens.epsilonLow,
    epsilonHigh: goldens.epsilonHigh,
    temperature: 1,
    normalizer: golden.normalizer,
    ...rest,
    ...(threshold === undefined ? {} : { entropyThreshold: threshold }),
    ...(rest.entropyCoefficient === undefined ? {} : { windowTokens: active }),
  }
}

describe("objectives agree with TRL and PyTorch", () => {
  test.each(goldens.cases.map((golden) => [`${golden.source} ${golden.inputs} ${JSON.stringify(golden.spec)}`, golden] as const))("%s", (_, golden) => {
    const inputs = goldens.inputs[golden.inputs]!
    const { rows, length } = goldens
    const outcome = evaluate(specOf(golden, inputs), {
      rows,
      length,
      logProbs: inputs.logProbs.flat(),
      behavior: inputs.behavior.flat(),
      proximal: inputs.proximal.flat(),
      reference: inputs.reference.flat(),
      entropy: inputs.entropy.flat(),
      advantages: inputs.advantages.flatMap((advantage) => Array.from({ length }, () => advantage)),
      mask: inputs.mask.flat(),
    })
    expectClose(outcome.gradient, golden.gradient)
    const terms = golden.gradient.reduce((sum, value) => sum + Math.abs(value), 0)
    expect(Math.abs(outcome.loss - golden.loss)).toBeLessThanOrEqual(1e-5 * Math.abs(golden.loss) + 1e-6 * terms)
    if (golden.entropyGradient !== undefined) expectClose(outcome.entropyGradient!, golden.entropyGradient)
    const summary = summarizeMetrics(outcome.metrics)
    for (const [name, value] of Object.entries(golden.metrics ?? {})) expectClose([summary[name]!], [value])
  })

  test("cover every objective", () => {
    expect(new Set(goldens.cases.map(({ spec }) => spec.kind)).size).toBe(10)
    expect(goldens.cases.length).toBeGreaterThanOrEqual(40)
  })
})

describe("advantages agree with TRL", () => {
  test.each(goldens.advantages.map((golden) => [`${golden.scale} ${golden.standardDeviation}`, golden] as const))("%s", (_, golden) => {
    const groups = groupAdvantages(golden.rewards, golden)
    for (const [index, expected] of golden.advantages.entries())
      for (const [member, value] of expected.entries()) {
        if (value === null) expect(groups[index]!.advantages[member]).toBeNull()
        else expect(groups[index]!.advantages[member]!).toBeCloseTo(value, 7)
      }
  })

  test("normalize then sum (GDPO)", () => {
    const groups = gdpoAdvantages(goldens.gdpo.scores, { weights: goldens.gdpo.weights, standardDeviation: "sample", epsilon: 1e-4 })
    for (const [index, expected] of goldens.gdpo.advantages.entries())
      for (const [member, value] of expected.entries()) expect(groups[index]!.advantages[member]!).toBeCloseTo(value, 7)
  })
})
