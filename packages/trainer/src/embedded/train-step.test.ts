// Packed rows, with and without shared prompts, must train what one sample a row trains: through the compiled step itself.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { collate, collatePacked, type MicroBatch, planPacked, trainedPlaces } from "@cohort/batching"
import { addMetrics, EMPTY_METRICS, type ObjectiveMetrics, type ObjectiveSpec } from "@cohort/loss"
import { createPolicy, type Policy, randomValues } from "@cohort/model"
import { findRuntime, openRuntime, type TensorRuntime } from "@cohort/tensor"
import { config, samples, specOf, specs } from "../../test/grouped-samples.ts"
import { createTrainStep, type StepForm, type TrainStep } from "./train-step.ts"

/** Policy version being trained: ages are among the metrics. */
const version = 3
const rows = [collate(samples, { rows: 7, length: 16 }, { version })]
const cuts: Readonly<Record<string, readonly MicroBatch[]>> = Object.fromEntries([
  ["another cut of the samples", samples.toReversed().map((sample) => collate([sample], { rows: 1, length: 16 }, { version }))],
  ...(["never", "always"] as const).map((share): [string, MicroBatch[]] => {
    const plan = planPacked(samples, { buckets: [{ rows: 1, length: 24 }, { rows: 3, length: 32 }], share, samplesPerRow: 4 })
    return [share === "always" ? "packed rows that share prompts" : "packed rows", plan.batches.map((batch) => collatePacked(batch, plan.samplesPerRow, { version }))]
  }),
  ["a sample without a trained token beside", [...rows, collate([{ ...samples[0]!, id: "masked", lossMask: new Uint8Array(13), advantage: 9 }], { rows: 1, length: 13 }, { version })]],
])

const library = findRuntime({ env: process.env })
interface Case {
  readonly backend: "cpu" | "tensorflow"
  readonly form: StepForm
  readonly specs: readonly ObjectiveSpec[]
  readonly cuts: readonly string[]
}
const cases: readonly Case[] = [
  { backend: "cpu", form: { mode: "eager", precision: "f32" }, specs, cuts: Object.keys(cuts) },
  // Each shape is compiled: one objective, few shapes.
  ...(library.status === "found" ? [{ backend: "tensorflow", form: { mode: "xla", precision: "f32" }, specs: [specOf("gspo")], cuts: ["packed rows that share prompts"] } as const] : []),
]

describe.each(cases)("$backend", ({ backend, form, specs: objectives, cuts: tried }) => {
  let runtime: TensorRuntime
  let policy: Policy
  let reference: Policy
  let step: TrainStep
  beforeAll(async () => {
    runtime = await openRuntime({ backend, threads: 2, ...(library.status === "found" ? { libraryPath: library.runtime.libraryPath } : {}) })
    policy = createPolicy(runtime, config, randomValues(config, 3))
    reference = createPolicy(runtime, config, randomValues(config, 4))
    // The first moment of a step without decay is the gradient, and a learning rate of 0 leaves the weights alone.
    step = createTrainStep(runtime, { config, trained: policy, weights: policy.weights }, { adamW: { beta1: 0, beta2: 0.9, epsilon: 1e-8, weightDecay: 0 }, entropy: true })
  })
  afterAll(() => {
    step.dispose()
    policy.dispose()
    reference.dispose()
    runtime.close()
  })

  const withLogProbs = (batch: MicroBatch): MicroBatch => ({
    ...batch,
    referenceLogProbs: step.score("logProbs", "reference", batch, 0.9, reference.weights, form),
    proximalLogProbs: step.score("logProbs", "policy", batch, 0.9, policy.weights, form),
  })

  /** Metrics and gradients of a window. */
  function train(batches: readonly MicroBatch[], spec: ObjectiveSpec, by: TrainStep = step): { readonly metrics: ObjectiveMetrics; readonly gradients: readonly Float32Array[] } {
    const needs = spec.klCoefficient !== undefined || spec.correction !== undefined
    const metrics = batches.map((batch) => (needs ? withLogProbs(batch) : batch)).reduce((sum, batch) => addMetrics(sum, by.forwardBackward(batch, spec, form)), EMPTY_METRICS)
    by.optimStep({ learningRate: 0, maxGradNorm: 1e9 })
    return { metrics, gradients: by.moments.first.map((moment) => Float32Array.from(moment.data() as Float32Array)) }
  }

  test("log-probs of trained tokens do not depend on who shares the row", () => {
    const trained = (batches: readonly MicroBatch[]): Map<string, number[]> =>
      new Map(batches.flatMap((batch) => {
        const values = step.score("logProbs", "policy", batch, 0.9, policy.weights, form)
        return trainedPlaces(batch).map((places, index): [string, number[]] => [batch.sampleIds[index]!, places.map((at) => values[at]!)])
      }))
    const expected = trained(rows)
    expect(expected.size).toBe(samples.length)
    for (const name of tried)
      for (const [id, values] of trained(cuts[name]!)) for (const [at, value] of values.entries()) expect([name, id, Math.abs(value - expected.get(id)![at]!) < 2e-5]).toEqual([name, id, true])
  })

  test.skipIf(backend !== "cpu")("logits in parts train what logits at once train, the entropy bonus too", () => {
    const many = collate(samples, { rows: 18, length: 16 }, { version })
    const inParts = createTrainStep(runtime, { config, trained: policy, weights: policy.weights }, { adamW: { beta1: 0, beta2: 0.9, epsilon: 1e-8, weightDecay: 0 }, entropy: true, headChunksFrom: 1 })
    const expected = train([many], specs[0]!)
    const parts = train([many], specs[0]!, inParts)
    for (const [key, value] of Object.entries(expected.metrics)) expect([key, Math.abs(parts.metrics[key as keyof ObjectiveMetrics] - value) <= 1e-4 * Math.max(1, Math.abs(value))]).toEqual([key, true])
    for (const [index, gradient] of expected.gradients.entries()) for (const [at, value] of parts.gradients[index]!.entries()) expect(Math.abs(value - gradient[at]!)).toBeLessThan(1e-5)
    const scores = (of: TrainStep): Float32Array => of.score("logProbs", "policy", many, 0.9, policy.weights, form)
    const whole = scores(step)
    for (const [at, value] of scores(inParts).entries()) expect(Math.abs(value - whole[at]!)).toBeLessThan(1e-4)
    inParts.dispose()
  })

  describe.each(objectives)("$kind", (spec) => {
    test.each(tried)("%s: loss, metrics and gradients of one sample a row", (name) => {
      const expected = train(rows, spec)
      expect([expected.metrics.ageTokens1, expected.metrics.ageTokens2, expected.metrics.ageTokens3]).toEqual([5, 5, 10])
      const other = train(cuts[name]!, spec)
      for (const [key, value] of Object.entries(expected.metrics)) expect([key, Math.abs(other.metrics[key as keyof ObjectiveMetrics] - value) <= 1e-4 * Math.max(1, Math.abs(value))]).toEqual([key, true])
      for (const [index, gradient] of expected.gradients.entries()) {
        const largest = gradient.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
        expect(largest).toBeGreaterThan(0)
        for (const [at, value] of other.gradients[index]!.entries()) expect(Math.abs(value - gradient[at]!)).toBeLessThanOrEqual(5e-5 * largest)
      }
    })
  })
})
