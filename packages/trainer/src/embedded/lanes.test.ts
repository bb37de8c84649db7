// A step in lanes must train what the same step in one piece trains. The piece is the same runtime with its lanes hidden.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { collate, collatePacked, type MicroBatch, planPacked } from "@cohort/batching"
import { CohortError, isCohortError } from "@cohort/errors"
import { addMetrics, EMPTY_METRICS, type ObjectiveMetrics, type ObjectiveSpec } from "@cohort/loss"
import { createPolicy, type Policy, randomValues } from "@cohort/model"
import { findRuntime, openRuntime, type TensorRuntime } from "@cohort/tensor"
import { config, samples, specs } from "../../test/grouped-samples.ts"
import { openBackend, parametersOf, tinyFolder, tinyGroup } from "../../test/tiny-run.ts"
import { createTrainStep, type StepForm, type TrainStep } from "./train-step.ts"

const version = 3
const odd = collate(samples.slice(0, 3), { rows: 3, length: 16 }, { version })
const single = collate(samples.slice(4, 5), { rows: 1, length: 16 }, { version })
const plan = planPacked(samples, { buckets: [{ rows: 3, length: 32 }], share: "always", samplesPerRow: 4 })
const packed = plan.batches.map((batch) => collatePacked(batch, plan.samplesPerRow, { version }))
const windows = { "several micro-batches, one of a single row": [single, odd, single], "packed rows that share prompts": packed } as const
const library = findRuntime({ env: process.env })
const openTwoLanes = (): Promise<TensorRuntime> => openRuntime({ backend: "tensorflow", threads: 1, lanes: 2, ...(library.status === "found" ? { libraryPath: library.runtime.libraryPath } : {}) })
const withLanes = (runtime: TensorRuntime, lanes: number): TensorRuntime => ({ ...runtime, info: { ...runtime.info, lanes } })

/** A step in one piece and one in lanes, over the same weights. */
interface Pair {
  readonly runtime: TensorRuntime
  readonly policy: Policy
  readonly whole: TrainStep
  readonly inLanes: TrainStep
  readonly form: StepForm
  dispose(): void
}

function pairOf(runtime: TensorRuntime, lanes: number, form: StepForm): Pair {
  const policy = createPolicy(runtime, config, randomValues(config, 3))
  // The first moment of a step without decay is the gradient, and a learning rate of 0 leaves the weights alone.
  const [whole, inLanes] = [1, lanes].map((count) => createTrainStep(withLanes(runtime, count), { config, trained: policy, weights: policy.weights }, { adamW: { beta1: 0, beta2: 0.9, epsilon: 1e-8, weightDecay: 0 }, entropy: true })) as [TrainStep, TrainStep]
  return {
    runtime, policy, whole, inLanes, form,
    dispose() {
      for (const each of [whole, inLanes, policy]) each.dispose()
      runtime.close()
    },
  }
}

function train({ policy, form }: Pair, step: TrainStep, batches: readonly MicroBatch[], spec: ObjectiveSpec): { readonly metrics: ObjectiveMetrics; readonly gradNorm: number; readonly gradients: readonly Float32Array[] } {
  const needs = spec.klCoefficient !== undefined || spec.correction !== undefined
  const metrics = batches.reduce((sum, batch) => {
    const logProbs = needs ? step.score("logProbs", "policy", batch, 1.1, policy.weights, form) : undefined
    return addMetrics(sum, step.forwardBackward(logProbs === undefined ? batch : { ...batch, referenceLogProbs: logProbs, proximalLogProbs: logProbs }, spec, form))
  }, EMPTY_METRICS)
  const { gradNorm } = step.optimStep({ learningRate: 0, maxGradNorm: 1e9 })
  return { metrics, gradNorm, gradients: step.moments.first.map((moment) => Float32Array.from(moment.data() as Float32Array)) }
}

function expectNear(values: Float32Array, expected: Float32Array, tolerance: number): void {
  expect(values.length).toBe(expected.length)
  for (const [at, value] of values.entries()) expect(Math.abs(value - expected[at]!)).toBeLessThanOrEqual(tolerance)
}

function expectSame(pair: Pair, batches: readonly MicroBatch[], spec: ObjectiveSpec): void {
  const [whole, inLanes] = [pair.whole, pair.inLanes].map((step) => train(pair, step, batches, spec))
  for (const [key, value] of Object.entries(whole!.metrics)) expect([key, Math.abs(inLanes!.metrics[key as keyof ObjectiveMetrics] - value) <= 1e-5 * Math.max(1, Math.abs(value))]).toEqual([key, true])
  expect(whole!.gradNorm).toBeGreaterThan(0)
  expect(inLanes!.gradNorm / whole!.gradNorm).toBeCloseTo(1, 5)
  for (const [index, gradient] of whole!.gradients.entries()) expectNear(inLanes!.gradients[index]!, gradient, 2e-5 * gradient.reduce((most, value) => Math.max(most, Math.abs(value)), 0))
}

/** Scores of a batch in lanes and in one piece. */
function scores({ policy, whole, inLanes }: Pair, what: "logProbs" | "entropies", batch: MicroBatch, form: StepForm): [Float32Array, Float32Array] {
  return [inLanes, whole].map((step) => step.score(what, "policy", batch, 0.9, policy.weights, form)) as [Float32Array, Float32Array]
}

function failureOf(body: () => unknown): unknown {
  try {
    return body()
  } catch (error) {
    return error
  }
}

/** Nothing is compiled here, so that every objective can be tried; its lanes come one after the other. */
describe("in parts", () => {
  let pair: Pair
  let failing = false
  beforeAll(async () => {
    const lanes: NonNullable<TensorRuntime["lanes"]> = (bodies) => {
      const results = bodies.map((body) => body())
      if (failing) throw new CohortError("tensor_failed", "a lane failed")
      return results
    }
    pair = pairOf({ ...(await openRuntime({ backend: "cpu" })), lanes }, 3, { mode: "eager", precision: "f32" })
  })
  afterAll(() => pair.dispose())

  describe.each(specs)("$kind", (spec) => {
    test.each(Object.keys(windows) as (keyof typeof windows)[])("%s: loss, metrics and gradients of one piece", (name) => expectSame(pair, windows[name], spec))
  })

  test("log-probs and entropies are those of one piece", () => {
    for (const batch of [odd, single, ...packed])
      for (const what of ["logProbs", "entropies"] as const) {
        const [inLanes, whole] = scores(pair, what, batch, pair.form)
        expectNear(inLanes, whole, 1e-6)
        expect(whole.some((value) => value !== 0)).toBe(true)
      }
  })

  test("a lane that fails leaves the window as it was, and no tensor behind", () => {
    const { gradNorm } = train(pair, pair.whole, [single, odd], specs[0]!)
    pair.inLanes.forwardBackward(single, specs[0]!, pair.form)
    const before = pair.runtime.counters()
    failing = true
    expect(failureOf(() => pair.inLanes.forwardBackward(odd, specs[0]!, pair.form))).toBeInstanceOf(CohortError)
    failing = false
    expect(pair.runtime.counters()).toEqual(before)
    pair.inLanes.forwardBackward(odd, specs[0]!, pair.form)
    expect(pair.inLanes.optimStep({ learningRate: 0, maxGradNorm: 1e9 }).gradNorm / gradNorm).toBeCloseTo(1, 5)
  })
})

describe.skipIf(library.status !== "found")("side by side", () => {
  const graph: StepForm = { mode: "graph", precision: "f32" }
  let pair: Pair
  beforeAll(async () => void (pair = pairOf(await openTwoLanes(), 2, { mode: "xla", precision: "f32" })))
  afterAll(() => pair.dispose())

  test("loss, metrics and gradients of one piece, of rows and of packed ones", () => {
    expect(pair.runtime.info).toMatchObject({ threads: 1, lanes: 2 })
    expectSame(pair, windows["several micro-batches, one of a single row"], specs[0]!)
    expectSame(pair, packed, specs[4]!)
  })

  test("log-probs and entropies are those of one piece", () => {
    for (const [inLanes, whole] of [scores(pair, "logProbs", odd, graph), scores(pair, "entropies", packed[0]!, pair.form)]) expectNear(inLanes, whole, 1e-6)
  })

  test("what fails in one lane is one error, and the next call works", () => {
    const [expected] = scores(pair, "logProbs", odd, graph)
    const before = pair.runtime.counters()
    // Of the second lane's row, a token that the model does not have.
    const bad = { ...odd, tokenIds: odd.tokenIds.with(2 * 16 + 2, 1000) }
    const thrown = failureOf(() => scores(pair, "logProbs", bad, graph))
    expect(isCohortError(thrown) && thrown.code).toBe("tensor_failed")
    expect(pair.runtime.counters()).toEqual(before)
    expect(scores(pair, "logProbs", odd, graph)[0]).toEqual(expected)
  })

  test("no tensor is left over", () => {
    const round = (): unknown => [train(pair, pair.inLanes, windows["several micro-batches, one of a single row"], specs[0]!), scores(pair, "logProbs", odd, graph)]
    round()
    const before = pair.runtime.counters()
    for (let i = 0; i < 5; i++) round()
    expect(pair.runtime.counters()).toEqual(before)
  })

  test("an adapter: two steps end where those of one piece do", async () => {
    const tiny = await tinyFolder()
    const batch = collate(tinyGroup("a", 0, [1, 0]).samples, { rows: 2, length: 8 })
    const ends = []
    for (const lanes of [1, 2]) {
      const backend = await openBackend(tiny.folder, { lora: { rank: 2, alpha: 8, targets: ["q_proj", "v_proj", "down_proj"], seed: 1 }, compile: "xla" }, withLanes(await openTwoLanes(), lanes))
      for (let step = 0; step < 2; step++) {
        backend.forwardBackward(batch, { kind: "dapo", epsilonLow: 0.2, epsilonHigh: 0.2, temperature: 1, normalizer: 8 })
        backend.optimStep({ learningRate: 0.01, maxGradNorm: 1 })
      }
      ends.push(parametersOf(backend, "trained"))
      backend.close()
    }
    tiny.remove()
    expectNear(ends[1]!, ends[0]!, 2e-5)
  })
})
