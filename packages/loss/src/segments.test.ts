// Rows that hold several sequences must train exactly what one sequence a row trains.
import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { evaluate, spec } from "../test/evaluate.ts"
import type { Case, Evaluated } from "../test/evaluate.ts"
import type { ObjectiveKind, ObjectiveSpec } from "./objective.ts"
import { objectives } from "./objectives/registry.ts"

const kinds = Object.keys(objectives) as ObjectiveKind[]

interface Token {
  readonly logProb: number
  readonly behavior: number
  readonly reference: number
  readonly entropy: number
  readonly trained: boolean
}
interface Sequence {
  readonly advantage: number
  readonly age: number
  readonly tokens: readonly Token[]
}

const logProb = fc.float({ min: -3, max: Math.fround(-0.01), noNaN: true })
const sequence: fc.Arbitrary<Sequence> = fc.record({
  advantage: fc.float({ min: -2, max: 2, noNaN: true }),
  age: fc.integer({ min: -1, max: 6 }),
  tokens: fc.array(
    fc.record({ logProb, behavior: logProb, reference: logProb, entropy: fc.float({ min: 0, max: 2, noNaN: true }), trained: fc.boolean() }),
    { minLength: 1, maxLength: 4 },
  ),
})

/** Lays rows of sequences out; every row is padded with garbage to the same length. */
function layOut(rows: readonly (readonly Sequence[])[], packed: boolean): Case {
  const length = Math.max(...rows.map((row) => row.reduce((sum, { tokens }) => sum + tokens.length, 0))) + 1
  const cells = rows.flatMap((row) => {
    const filled = row.flatMap((one, index) => one.tokens.map((token) => ({ token, index, advantage: one.advantage, age: one.age })))
    return Array.from({ length }, (_, at) => filled[at])
  })
  return {
    rows: rows.length,
    length,
    logProbs: cells.map((cell) => cell?.token.logProb ?? Number.NaN),
    behavior: cells.map((cell) => cell?.token.behavior ?? Infinity),
    reference: cells.map((cell) => cell?.token.reference ?? -Infinity),
    entropy: cells.map((cell) => cell?.token.entropy ?? Number.NaN),
    advantages: cells.map((cell) => cell?.advantage ?? 0),
    ages: cells.map((cell) => cell?.age ?? -1),
    mask: cells.map((cell) => (cell?.token.trained === true ? 1 : 0)),
    ...(packed ? { sequences: { index: cells.map((cell) => cell?.index ?? -1), perRow: Math.max(...rows.map((row) => row.length)) } } : {}),
  }
}

/** Gradients of the real tokens, sequence after sequence. */
function gradients(batch: Case, rows: readonly (readonly Sequence[])[], { gradient }: Evaluated): number[] {
  return rows.flatMap((row, index) => {
    const used = row.reduce((sum, { tokens }) => sum + tokens.length, 0)
    return gradient.slice(index * batch.length, index * batch.length + used)
  })
}

describe.each(kinds)("%s", (kind) => {
  test("packing changes neither loss, gradients nor metrics", () => {
    const variants: ObjectiveSpec[] = [
      spec({ kind, normalizer: 5 }),
      spec({ kind, normalizer: 5, klCoefficient: 0.1, klUnbiased: true, offPolicyThreshold: 0.1, correction: { mode: "token_mask", min: 0.5, max: 2 } }),
      ...(kind === "vespo" ? [] : [spec({ kind, normalizer: 5, correction: { mode: "sequence_truncate", max: 2 } })]),
    ]
    fc.assert(
      fc.property(fc.array(sequence, { minLength: 2, maxLength: 5 }), fc.nat(), (sequences, cut) => {
        const at = 1 + (cut % (sequences.length - 1))
        const packedRows = [sequences.slice(0, at), sequences.slice(at)]
        const singleRows = sequences.map((one) => [one])
        for (const objective of variants) {
          const packedCase = layOut(packedRows, true)
          const singleCase = layOut(singleRows, false)
          const packed = evaluate(objective, packedCase)
          const single = evaluate(objective, singleCase)
          const close = (a: number, b: number): void => expect(Math.abs(a - b)).toBeLessThanOrEqual(2e-5 * Math.max(1, Math.abs(a), Math.abs(b)))
          close(packed.loss, single.loss)
          const expected = gradients(singleCase, singleRows, single)
          for (const [index, value] of gradients(packedCase, packedRows, packed).entries()) close(value, expected[index]!)
          const metrics = Object.values(single.metrics)
          for (const [index, value] of Object.values(packed.metrics).entries()) close(value, metrics[index]!)
        }
      }),
      { seed: 13, numRuns: 10 },
    )
  })
})
