// Objectives and advantages against goldens made by TRL's own loss function and PyTorch (test/parity/objectives/make.py).
import { describe, expect, test } from "bun:test"
import { evaluate, evaluateLogits, spec } from "../test/evaluate.ts"
import { gdpoAdvantages } from "./advantages/gdpo.ts"
import { groupAdvantages } from "./advantages/group.ts"
import type { AdvantageOptions } from "./advantages/group.ts"
import { summarizeMetrics } from "./definitions.ts"
import { type AdvantageEstimator, advantagesOf } from "./advantages/rule.ts"
import { topEntropy } from "./entropy.ts"
import { windowNormalizer } from "./normalizer.ts"
import type { ObjectiveSpec } from "./objective.ts"

type Grid = readonly (readonly number[])[]
type GoldenSpec = Partial<ObjectiveSpec> & Pick<ObjectiveSpec, "kind"> & { readonly topEntropyShare?: number; readonly scale?: AdvantageOptions["scale"] }

interface GoldenInputs {
  readonly logits: readonly Grid[]
  readonly targets: Grid
  readonly behavior: Grid
  readonly proximal: Grid
  readonly reference: Grid
  readonly advantages: readonly number[]
  /** By group, for the cases with a scale. */
  readonly rewards: Grid
  readonly mask: Grid
}

interface GoldenCase {
  readonly source: "trl" | "torch"
  readonly inputs: number
  readonly spec: GoldenSpec
  readonly normalizer: number
  readonly loss: number
  /** With respect to the logits. */
  readonly gradient: readonly number[]
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
  readonly estimators: readonly { readonly advantage: AdvantageEstimator; readonly rewards: number[][]; readonly advantages: number[][] }[]
  readonly gdpo: { readonly scores: (number | null)[][][]; readonly weights: number[]; readonly advantages: number[][] }
  readonly derived: {
    readonly window: { readonly microBatches: readonly { readonly tokens: number; readonly loss: number }[]; readonly loss: number }
    readonly residue: { readonly rewards: number[]; readonly advantages: number[] }
    readonly emptyRow: { readonly advantages: number[]; readonly mask: Grid; readonly loss: number }
  }
}

const goldens: Goldens = await Bun.file(new URL("../../../test/parity/objectives/goldens.json", import.meta.url)).json()

/** Within 1e-5 of the expected value, or of the vector's largest entry times 1e-6 where float32 rounding of a sum decides. */
function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual).toHaveLength(expected.length)
  const floor = 1e-6 * Math.max(...expected.map(Math.abs))
  for (const [index, value] of expected.entries())
    if (!(Math.abs(actual[index]! - value) <= 1e-5 * Math.abs(value) + floor)) expect(actual).toEqual(expected as number[])
}

/** Entropy of each position's softmax. */
function entropiesOf({ logits }: GoldenInputs): number[] {
  return logits.flat().map((row) => {
    const total = row.reduce((sum, logit) => sum + Math.exp(logit), 0)
    return row.reduce((sum, logit) => sum - (Math.exp(logit) / total) * (logit - Math.log(total)), 0)
  })
}

function specOf(golden: GoldenCase, inputs: GoldenInputs): ObjectiveSpec {
  const { topEntropyShare, scale: _, ...rest } = golden.spec
  const trained = entropiesOf(inputs).filter((_, index) => inputs.mask.flat()[index] === 1)
  // A hair lower, so that float32 does not decide about a token whose entropy is the quantile itself.
  const threshold = topEntropyShare === undefined ? undefined : topEntropy(trained, topEntropyShare).threshold
  const active = threshold === undefined ? trained.length : trained.filter((entropy) => entropy >= threshold).length
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

function advantagesIn({ spec }: GoldenCase, inputs: GoldenInputs): readonly number[] {
  if (spec.scale === undefined) return inputs.advantages
  const settings = { advantage: "group", advantageScale: spec.scale, standardDeviation: "sample" } as const
  return advantagesOf(inputs.rewards.map((totals) => ({ totals })), settings).flatMap(({ advantages }) => advantages.map((value) => value!))
}

describe("objectives agree with TRL and PyTorch", () => {
  test.each(goldens.cases.map((golden) => [`${golden.source} ${golden.inputs} ${JSON.stringify(golden.spec)}`, golden] as const))("%s", (_, golden) => {
    const inputs = goldens.inputs[golden.inputs]!
    const { rows, length } = goldens
    const outcome = evaluateLogits(specOf(golden, inputs), {
      rows,
      length,
      logits: inputs.logits.flat(2),
      targets: inputs.targets.flat(),
      behavior: inputs.behavior.flat(),
      proximal: inputs.proximal.flat(),
      reference: inputs.reference.flat(),
      advantages: advantagesIn(golden, inputs).flatMap((advantage) => Array.from({ length }, () => advantage)),
      mask: inputs.mask.flat(),
    })
    expectClose(outcome.gradient, golden.gradient)
    const terms = golden.gradient.reduce((sum, value) => sum + Math.abs(value), 0)
    expect(Math.abs(outcome.loss - golden.loss)).toBeLessThanOrEqual(1e-5 * Math.abs(golden.loss) + 1e-6 * terms)
    const summary = summarizeMetrics(outcome.metrics)
    for (const [name, value] of Object.entries(golden.metrics ?? {})) expectClose([summary[name]!], [value])
  })

  test("cover every objective", () => {
    expect(new Set(goldens.cases.map(({ spec }) => spec.kind)).size).toBe(10)
    expect(goldens.cases.length).toBeGreaterThanOrEqual(40)
  })

  test("cross objective, level, correction, scale and beta: every pair of values of two of them meets", () => {
    const crossed = goldens.cases.filter(({ spec }) => spec.scale !== undefined)
    const values = crossed.map(({ spec }) => [spec.kind, spec.level, spec.correction?.mode ?? "none", spec.scale, spec.klCoefficient ?? 0].map(String))
    for (const a of [0, 1, 2, 3, 4])
      for (const b of [0, 1, 2, 3, 4].filter((other) => other > a)) {
        const met = new Set(values.map((row) => `${row[a]} ${row[b]}`)).size
        expect(met).toBe(new Set(values.map((row) => row[a])).size * new Set(values.map((row) => row[b])).size)
      }
  })
})

describe("where TRL is wrong", () => {
  const { window, residue, emptyRow } = goldens.derived

  test("the loss of a step is the mean over its tokens, not the mean of its micro-batches' means", () => {
    const normalizer = windowNormalizer("dapo", { trainedTokens: 1000, completions: 10, maxCompletionTokens: 100 })
    const losses = window.microBatches.map(({ tokens, loss }) => {
      const row = (value: number): number[] => Array.from({ length: tokens }, () => value)
      return evaluate(spec({ normalizer }), { rows: 1, length: tokens, logProbs: row(-1), behavior: row(-1), advantages: row(-loss), mask: row(1) }).loss
    })
    expect(losses.reduce((sum, loss) => sum + loss, 0)).toBeCloseTo(window.loss, 5)
  })

  test("float noise among rewards is no advantage, with either deviation", () => {
    for (const standardDeviation of ["sample", "population"] as const) {
      const [group] = advantagesOf([{ totals: residue.rewards }], { advantage: "group", advantageScale: "group", standardDeviation })
      expect(group!.advantages).toEqual(residue.advantages)
    }
  })

  test("a completion without a trained token does not count", () => {
    const mask = emptyRow.mask.flat()
    const totals = { trainedTokens: 2, completions: emptyRow.mask.filter((row) => row.includes(1)).length, maxCompletionTokens: 2 }
    const advantages = emptyRow.advantages.flatMap((advantage) => [advantage, advantage])
    const logProbs = mask.map(() => -1)
    expect(evaluate(spec({ kind: "grpo", normalizer: windowNormalizer("grpo", totals) }), { rows: 2, length: 2, logProbs, behavior: logProbs, advantages, mask }).loss).toBeCloseTo(emptyRow.loss, 6)
  })
})

describe("advantages agree with TRL", () => {
  test.each(goldens.advantages.map((golden) => [`${golden.scale} ${golden.standardDeviation}`, golden] as const))("%s", (_, golden) => {
    const groups = groupAdvantages(golden.rewards, golden)
    for (const [index, expected] of golden.advantages.entries())
      for (const [member, value] of expected.entries()) {
        if (value === null) expect(groups[index]!.advantages[member]).toBeNull()
        else expect(groups[index]!.advantages[member]!).toBeCloseTo(value, 6)
      }
  })

  test.each(goldens.estimators.map((golden) => [golden.advantage, golden] as const))("%s", (advantage, { rewards, advantages }) => {
    const groups = advantagesOf(rewards.map((totals) => ({ totals })), { advantage, advantageScale: "group", standardDeviation: "population" })
    for (const [index, expected] of advantages.entries()) for (const [member, value] of expected.entries()) expect(groups[index]!.advantages[member]!).toBeCloseTo(value, 6)
  })

  test("normalize then sum (GDPO)", () => {
    const groups = gdpoAdvantages(goldens.gdpo.scores, { weights: goldens.gdpo.weights, standardDeviation: "sample", epsilon: 1e-4 })
    for (const [index, expected] of goldens.gdpo.advantages.entries())
      for (const [member, value] of expected.entries()) expect(groups[index]!.advantages[member]!).toBeCloseTo(value, 6)
  })
})
