import { describe, expect, test } from "bun:test"
import * as tf from "@tensorflow/tfjs-core"
import fc from "fast-check"
import { evaluate, spec } from "../test/evaluate.ts"
import type { Case } from "../test/evaluate.ts"
import { summarizeMetrics } from "./definitions.ts"
import { addMetrics } from "./metrics.ts"
import { windowNormalizer } from "./normalizer.ts"
import type { ObjectiveKind, ObjectiveMetrics, ObjectiveSpec } from "./objective.ts"
import { objectives } from "./objectives/registry.ts"

const kinds = Object.keys(objectives) as ObjectiveKind[]

/** Rows of [log-prob, behaviour] pairs with one advantage each; shorter rows are padded with garbage. */
function batchOf(rows: readonly { readonly advantage: number; readonly tokens: readonly (readonly [number, number])[]; readonly weight?: number }[]): Case {
  const length = Math.max(1, ...rows.map(({ tokens }) => tokens.length)) + 1
  const flat = <T>(valueOf: (row: (typeof rows)[number], index: number) => T): T[] =>
    rows.flatMap((row) => Array.from({ length }, (_, index) => valueOf(row, index)))
  return {
    rows: rows.length,
    length,
    logProbs: flat(({ tokens }, index) => tokens[index]?.[0] ?? Number.NaN),
    behavior: flat(({ tokens }, index) => tokens[index]?.[1] ?? Infinity),
    advantages: flat(({ advantage }) => advantage),
    weights: flat(({ weight }) => weight ?? 1),
    mask: flat(({ tokens }, index) => (index < tokens.length ? 1 : 0)),
    entropy: flat(({ tokens }, index) => (index < tokens.length ? 0.5 : Number.NaN)),
  }
}

const repeated = (count: number, logProb = -1, behavior = logProb): [number, number][] => Array.from({ length: count }, () => [logProb, behavior])
const clip = (ratio: number, advantage: number) =>
  evaluate(spec(), batchOf([{ advantage, tokens: [[Math.log(ratio) - 2, -2]] }]))

describe("the clipped surrogate", () => {
  test("clips the right side for each sign of the advantage, with zero gradient only where clipped", () => {
    const expected = [
      { ratio: 1.5, advantage: 1, loss: -1.28, gradient: 0 },
      { ratio: 1.5, advantage: -1, loss: 1.5, gradient: 1.5 },
      { ratio: 0.5, advantage: 1, loss: -0.5, gradient: -0.5 },
      { ratio: 0.5, advantage: -1, loss: 0.8, gradient: 0 },
    ]
    for (const { ratio, advantage, loss, gradient } of expected) {
      const outcome = clip(ratio, advantage)
      expect(outcome.loss).toBeCloseTo(loss, 5)
      expect(outcome.gradient[0]).toBeCloseTo(gradient, 5)
      expect(outcome.metrics.ratioSum).toBeCloseTo(ratio, 5)
      expect(outcome.metrics.clipHighSum).toBe(ratio > 1.28 && advantage > 0 ? 1 : 0)
      expect(outcome.metrics.clipLowSum).toBe(ratio < 0.8 && advantage < 0 ? 1 : 0)
    }
  })

  test("normalises over the window: 8 - 2 over 10 tokens, however the rows are cut", () => {
    const a = { advantage: 1, tokens: repeated(2) }
    const b = { advantage: -1, tokens: repeated(8) }
    const token = spec({ normalizer: windowNormalizer("dapo", { trainedTokens: 10, completions: 2, maxCompletionTokens: 10 }) })
    expect(evaluate(token, batchOf([a, b])).loss).toBeCloseTo(0.6, 6)
    expect(evaluate(token, batchOf([a])).loss + evaluate(token, batchOf([b])).loss).toBeCloseTo(0.6, 6)
    const totals = { trainedTokens: 10, completions: 2, maxCompletionTokens: 10 }
    const loss = (kind: ObjectiveKind) => evaluate(spec({ kind, normalizer: windowNormalizer(kind, totals) }), batchOf([a, b])).loss
    expect(loss("grpo")).toBeCloseTo(0, 6)
    expect(loss("dr_grpo")).toBeCloseTo(0.3, 6)
    expect(loss("bnpo")).toBeCloseTo(0.6, 6)
  })
})

describe("what must never reach the loss", () => {
  test.each(kinds)("%s: garbage log-probs under the mask", (kind) => {
    const rows = [{ advantage: 1.5, tokens: [[-1, -1.2], [-0.4, -0.3]] as [number, number][] }, { advantage: -0.5, tokens: [[-2, -1.9]] as [number, number][] }]
    const clean = evaluate(spec({ kind }), { ...batchOf(rows), logProbs: [-1, -0.4, 0, -2, 0, 0], behavior: [-1.2, -0.3, 0, -1.9, 0, 0] })
    for (const garbage of [Number.NaN, Infinity, -Infinity, 1e30]) {
      const dirty = evaluate(spec({ kind }), { ...batchOf(rows), logProbs: [-1, -0.4, garbage, -2, garbage, garbage], behavior: [-1.2, -0.3, garbage, -1.9, -garbage, garbage] })
      expect(dirty).toEqual(clean)
      expect(Math.abs(dirty.gradient[2]!)).toBe(0)
    }
  })

  test.each(kinds)("%s: a batch without trained tokens has loss 0, gradient 0 and finite metrics", (kind) => {
    const empty = evaluate(spec({ kind }), batchOf([{ advantage: 1, tokens: [] }, { advantage: -1, tokens: [] }]))
    expect(empty.loss).toBeCloseTo(0, 10)
    expect(empty.gradient.every((value) => value === 0)).toBe(true)
    expect(Object.values(empty.metrics).every((value) => Math.abs(value) === 0)).toBe(true)
  })

  test("a missing behaviour log-prob gives ratio 1 and the policy gradient, and is counted", () => {
    const { gradient, metrics } = evaluate(spec(), batchOf([{ advantage: 2, tokens: [[-0.3, -0.3], [-0.00001, Number.NaN], [-0.25, -0.2]] }]))
    expect(metrics.missingBehaviorSum).toBe(1)
    expect(metrics.ratioSum).toBeCloseTo(2 + Math.exp(-0.05), 5)
    expect(gradient[1]).toBeCloseTo(-2, 6)
  })

  test("an infinite log-prob keeps the ratio finite and is counted apart from missing ones", () => {
    const { loss, metrics } = evaluate(spec(), batchOf([{ advantage: -1, tokens: [[-0.3, -Infinity]] }]))
    expect(Number.isFinite(loss)).toBe(true)
    expect(metrics).toMatchObject({ saturatedSum: 1, missingBehaviorSum: 0 })
  })

  test("a NaN policy log-prob at a trained token is not hidden", () => {
    expect(evaluate(spec(), batchOf([{ advantage: 1, tokens: [[Number.NaN, -1]] }])).loss).toBeNaN()
  })
})

interface Row {
  readonly advantage: number
  readonly weight: number
  readonly tokens: readonly (readonly [number, number])[]
}

const logProb = fc.float({ min: -3, max: Math.fround(-0.01), noNaN: true })
const rowArbitrary: fc.Arbitrary<Row> = fc.record({
  advantage: fc.float({ min: -2, max: 2, noNaN: true }),
  weight: fc.constantFrom(1, 0.5),
  tokens: fc.array(fc.tuple(logProb, logProb), { maxLength: 4 }),
})
const close = (a: number, b: number): void => expect(Math.abs(a - b)).toBeLessThanOrEqual(1e-5 * Math.max(1, Math.abs(a), Math.abs(b)))

/** Gradient per token of each row, without the padding. */
function rowGradients(objective: ObjectiveSpec, rows: readonly Row[]): { loss: number; gradients: number[][]; metrics: ObjectiveMetrics } {
  const batch = batchOf(rows)
  const { loss, gradient, metrics } = evaluate(objective, batch)
  return { loss, metrics, gradients: rows.map(({ tokens }, row) => gradient.slice(row * batch.length, row * batch.length + tokens.length)) }
}

describe.each(kinds)("%s", (kind) => {
  const objective = spec({ kind, normalizer: 7 })

  test("cutting and permuting micro-batches changes neither loss, gradient nor metrics", () => {
    fc.assert(
      fc.property(fc.array(rowArbitrary, { minLength: 2, maxLength: 5 }), fc.nat(), (rows, cut) => {
        const whole = rowGradients(objective, rows)
        const at = 1 + (cut % (rows.length - 1))
        const second = rowGradients(objective, rows.slice(at))
        const first = rowGradients(objective, rows.slice(0, at))
        close(first.loss + second.loss, whole.loss)
        for (const [index, row] of [...first.gradients, ...second.gradients].entries())
          for (const [token, value] of row.entries()) close(value, whole.gradients[index]![token]!)
        const added = Object.values(addMetrics(second.metrics, first.metrics))
        for (const [index, value] of Object.values(whole.metrics).entries()) close(value, added[index]!)
      }),
      { seed: 7, numRuns: 12 },
    )
  })

  test("a fully masked sample changes nothing", () => {
    const rows = [{ advantage: 1, weight: 1, tokens: [[-1, -1.1]] as [number, number][] }]
    const { loss, gradients } = rowGradients(objective, rows)
    const padded = rowGradients(objective, [...rows, { advantage: 3, weight: 1, tokens: [] }])
    expect(padded).toMatchObject({ loss, gradients: [...gradients, []] })
  })

  test("ratio 1 gives the plain policy gradient", () => {
    const rows = [{ advantage: 1.5, tokens: repeated(2, -0.7) }, { advantage: -0.5, tokens: repeated(3, -1.1) }]
    const { gradients } = rowGradients(objective, rows.map((row) => ({ ...row, weight: 1 })))
    for (const [index, { advantage, tokens }] of rows.entries())
      for (const value of gradients[index]!) close(value, -advantage / 7 / (objectives[kind].reduction === "sequence" ? tokens.length : 1))
  })

  test("the sample weight scales the row's gradient", () => {
    const row = { advantage: 1, tokens: [[-1, -1.1], [-1, -0.9]] as [number, number][] }
    const full = rowGradients(objective, [{ ...row, weight: 1 }])
    const half = rowGradients(objective, [{ ...row, weight: 0.5 }])
    for (const [index, value] of half.gradients[0]!.entries()) close(value * 2, full.gradients[0]![index]!)
  })
})

describe("by age", () => {
  /** One token a row: ratio to the sampler, advantage, age. */
  const rows = [[1.5, 1, 0], [1, 1, 0], [0.5, -1, 1], [2, 1, 4], [1, -1, 9], [1.1, 1, -1]] as const
  const batch: Case = { ...batchOf(rows.map(([ratio, advantage]) => ({ advantage, tokens: [[Math.log(ratio) - 2, -2]] as [number, number][] }))), ages: rows.flatMap(([, , age]) => [age, age]) }
  const k3 = (ratio: number): number => ratio - 1 - Math.log(ratio)

  test("clipped shares and KL are of the tokens of each age; the last bucket holds all above, unknown ages are in none", () => {
    const summary = summarizeMetrics(evaluate(spec(), batch).metrics)
    expect(summary["clip/region_age_0"]).toBeCloseTo(0.5, 6)
    expect(summary["clip/region_age_1"]).toBeCloseTo(1, 6)
    expect(summary["clip/region_age_4_up"]).toBeCloseTo(0.5, 6)
    expect(summary["kl/behavior_age_0"]).toBeCloseTo(k3(1.5) / 2, 5)
    expect(summary["kl/behavior_age_1"]).toBeCloseTo(k3(0.5), 5)
    expect(summary["kl/behavior_age_4_up"]).toBeCloseTo(k3(2) / 2, 5)
    for (const age of [2, 3]) expect([summary[`clip/region_age_${age}`], summary[`kl/behavior_age_${age}`]]).toEqual([null, null])
  })

  test("without ages there are no such figures, and the others are the same", () => {
    const { ages: _, ...bare } = batch
    const summary = summarizeMetrics(evaluate(spec(), bare).metrics)
    const aged = summarizeMetrics(evaluate(spec(), batch).metrics)
    for (const [name, value] of Object.entries(summary)) expect([name, value]).toEqual([name, name.includes("_age_") ? null : aged[name]!])
  })
})

test("no tensor outlives an evaluation", () => {
  const before = tf.memory().numTensors
  evaluate(spec(), batchOf([{ advantage: 1, tokens: repeated(3) }]))
  expect(tf.memory().numTensors).toBe(before)
})
