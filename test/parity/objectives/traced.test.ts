// The objective as training runs it, traced and compiled by the tensor runtime, against plain tfjs on the CPU: every kind with every part at once.
import { afterAll, describe, expect, test } from "bun:test"
import { type ObjectiveKind, objectives, objectiveScalars, type ObjectiveSpec, policyObjective } from "@cohort/loss"
import { type CompileMode, findRuntime, openRuntime, type TensorRuntime } from "@cohort/tensor"
import * as tf from "@tensorflow/tfjs-core"

const ROWS = 3
const LENGTH = 6
const SIZE = ROWS * LENGTH
const column = (valueOf: (index: number) => number): number[] => Array.from({ length: SIZE }, (_, index) => valueOf(index))
const wave = (index: number, seed: number): number => Math.sin(index * 12.9898 + seed * 78.233)

/** Log-probs, behaviour, proximal, reference, entropy, advantage, weight, mask. */
const columns: readonly number[][] = [
  column((index) => -1.2 + wave(index, 1)),
  column((index) => (index === 4 ? Number.NaN : -1.3 + wave(index, 1) + 0.3 * wave(index, 2))),
  column((index) => -1.25 + wave(index, 1) + 0.1 * wave(index, 3)),
  column((index) => -1.4 + wave(index, 4)),
  column((index) => 1 + wave(index, 5) ** 2),
  column((index) => (index % LENGTH < 3 ? 0.8 : -0.6)),
  column((index) => (index % LENGTH < 3 ? 1 : 0.5)),
  column((index) => (index % 5 === 0 ? 0 : 1)),
]
/** Two sequences of three tokens a row. */
const sequence = column((index) => (index % LENGTH < 3 ? 0 : 1))

function specOf(kind: ObjectiveKind): ObjectiveSpec {
  return {
    kind, epsilonLow: 0.2, epsilonHigh: 0.28, temperature: 1, normalizer: 9, klCoefficient: 0.1, klUnbiased: true, entropyCoefficient: 0.01, windowTokens: 12, entropyThreshold: 1.1,
    offPolicyThreshold: 0.3, correction: { mode: "token_truncate", max: 1.2 }, ...(objectives[kind].clips === true ? { delta: 1.5 } : {}),
  }
}

/** Gradients of log-probs and entropies, and the metrics. */
function evaluate(runtime: TensorRuntime, kind: ObjectiveKind, mode: CompileMode): number[][] {
  const spec = specOf(kind)
  const scalars = Object.entries(objectiveScalars(spec))
  const run = runtime.compile(
    (columns_8N, sequence_N, scalars_K) => {
      const at = (index: number): tf.Tensor1D => tf.reshape(tf.slice(columns_8N!, [index, 0], [1, SIZE]), [SIZE])
      let metrics: tf.Tensor | undefined
      const { grads } = tf.valueAndGrads((logProbs_N: tf.Tensor, entropy_N: tf.Tensor) => {
        const output = policyObjective(spec, {
          rows: ROWS, length: LENGTH, logProbs_N: logProbs_N as tf.Tensor1D, entropy_N: entropy_N as tf.Tensor1D,
          behaviorLogProbs_N: at(1), proximalLogProbs_N: at(2), referenceLogProbs_N: at(3), advantages_N: at(5), weights_N: at(6), mask_N: at(7),
          sequences: { index_N: sequence_N as tf.Tensor1D, perRow: 2 },
          scalars: Object.fromEntries(scalars.map(([name], index) => [name, tf.reshape(tf.slice(scalars_K!, [index], [1]), [])])),
        })
        metrics = tf.keep(output.metrics)
        return output.loss
      })([at(0), at(4)])
      const out = [...grads, metrics!.clone()]
      metrics!.dispose()
      return out
    },
    { name: `objective ${kind}`, mode },
  )
  const found = tf.tidy(() => run(tf.tensor2d(columns.flat(), [8, SIZE]), tf.tensor1d(sequence, "int32"), tf.tensor1d(scalars.map(([, value]) => value))).map((tensor) => [...tensor.dataSync()]))
  run.dispose()
  return found
}

const kinds = Object.keys(objectives) as ObjectiveKind[]
const cpu = await openRuntime({ backend: "cpu" })
const expected = kinds.map((kind) => evaluate(cpu, kind, "eager"))
cpu.close()

// Needs the library: installed, or named by COHORT_LIBTENSORFLOW.
const lookup = findRuntime({ env: process.env })
const runtime = lookup.status === "found" ? await openRuntime({ backend: "tensorflow", libraryPath: lookup.runtime.libraryPath }) : undefined
afterAll(() => runtime?.close())

test("every kind has finite gradients with every part at once", () => {
  for (const values of expected) {
    expect(values.flat().every(Number.isFinite)).toBe(true)
    expect(values[0]!.some((value) => Math.abs(value) > 1e-3)).toBe(true)
  }
})

describe.if(runtime !== undefined)("compiled", () => {
  test.each([...kinds.map((kind) => [kind, "graph"] as const), ...(["dapo", "gspo", "vespo"] as const).map((kind) => [kind, "xla"] as const)])("%s as %s", (kind, mode) => {
    const found = evaluate(runtime!, kind, mode)
    for (const [index, values] of expected[kinds.indexOf(kind)]!.entries())
      for (const [at, value] of values.entries()) expect(Math.abs(found[index]![at]! - value)).toBeLessThanOrEqual(2e-5 * Math.max(1, Math.abs(value)))
  })
})
