// A training step on packed rows, with and without shared prompts, must have the loss and the gradients of one sample a row: through the model,
// the loss and the batcher together.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { collate, collatePacked, type MicroBatch, planPacked, type Sample, windowTotals } from "@cohort/batching"
import { type ObjectiveKind, type ObjectiveSpec, objectiveScalars, policyObjective, windowNormalizer } from "@cohort/loss"
import { hiddenStates, logits, type ModelConfig, parameterLayout, parseModelConfig, randomValues, targetLogProbs, type Weights } from "@cohort/model"
import { openRuntime, type TensorRuntime } from "@cohort/tensor"
import * as tf from "@tensorflow/tfjs-core"

const config: ModelConfig = parseModelConfig({
  architectures: ["LlamaForCausalLM"], vocab_size: 17, hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 24,
  max_position_embeddings: 64, rms_norm_eps: 1e-5, rope_theta: 10_000, tie_word_embeddings: true, initializer_range: 0.4, eos_token_id: 1, hidden_act: "silu",
})

/** Groups of a few completions each; the first prompts are long, the last is one token. */
const groups: readonly { readonly prompt: number; readonly completions: readonly number[] }[] = [
  { prompt: 9, completions: [4, 2, 5] },
  { prompt: 5, completions: [3, 3] },
  { prompt: 1, completions: [6] },
]

const samples: Sample[] = groups.flatMap(({ prompt, completions }, group) =>
  completions.map((completion, member): Sample => {
    const length = prompt + completion
    const trained = (index: number): boolean => index >= prompt && (index - prompt) % 4 !== 3
    return {
      id: `${group}/${member}`, groupId: `${group}`, rolloutId: `${group}/${member}`,
      tokenIds: Int32Array.from({ length }, (_, index) => (index < prompt ? (group * 5 + index * 3) % 17 : (group + member * 7 + index * 11) % 17)),
      lossMask: Uint8Array.from({ length }, (_, index) => (trained(index) ? 1 : 0)),
      behaviorLogProbs: Float32Array.from({ length }, (_, index) => (trained(index) ? -2.5 - 0.1 * ((index * 7 + member) % 9) : 0)),
      versions: Int32Array.from({ length }, (_, index) => (trained(index) ? 0 : -1)),
      advantage: member - 0.7, weight: member === 1 ? 0.5 : 1, truncated: false,
    }
  }),
)

let runtime: TensorRuntime
beforeAll(async () => {
  runtime = await openRuntime({ backend: "cpu" })
})
afterAll(() => runtime.close())

const layout = parameterLayout(config)

/** Loss and gradients, summed over micro-batches. */
function step(batches: readonly MicroBatch[], spec: ObjectiveSpec): { readonly loss: number; readonly gradients: number[][] } {
  const values = randomValues(config, 3)
  let loss = 0
  const gradients = layout.map((parameter) => Array.from({ length: parameter.shape.reduce((size, dim) => size * dim, 1) }, () => 0))
  for (const batch of batches)
    tf.tidy(() => {
      const weights = layout.map((parameter) => tf.tensor(Float32Array.from(parameter.parts.flatMap((part) => [...values(part.checkpointName, part.shape)])), [...parameter.shape]))
      const run = tf.valueAndGrads((...given: tf.Tensor[]) => lossOf(batch, spec, Object.fromEntries(layout.map(({ name }, index) => [name, given[index]!]))))
      const { value, grads } = run(weights)
      loss += value.dataSync()[0]!
      for (const [index, gradient] of grads.entries()) for (const [at, part] of gradient.dataSync().entries()) gradients[index]![at]! += part
    })
  return { loss, gradients }
}

/** As a trainer does it: the loss sees predictions, each made from the hidden state of its source. */
function lossOf(batch: MicroBatch, spec: ObjectiveSpec, weights: Weights): tf.Scalar {
  const { rows, length, packed } = batch
  const floats = (values: ArrayLike<number>): tf.Tensor1D => tf.tensor1d(Float32Array.from(values))
  const grid = (values: Int32Array): tf.Tensor2D => tf.tensor2d(values, [rows, length], "int32")
  const hidden_ND = hiddenStates(config, weights, grid(batch.tokenIds), grid(batch.positions), packed && grid(packed.visibleUntil))
  const predicting_ND = packed === undefined ? hidden_ND : tf.gather(hidden_ND, tf.tensor1d(packed.source.map((source, at) => Math.floor(at / length) * length + source), "int32"))
  return policyObjective(spec, {
    rows, length,
    logProbs_N: targetLogProbs(undefined, logits(config, weights, predicting_ND), tf.tensor1d(batch.targets, "int32"), tf.scalar(1)) as tf.Tensor1D,
    behaviorLogProbs_N: floats(batch.behaviorLogProbs), advantages_N: floats(batch.advantages), weights_N: floats(batch.weights), mask_N: floats(batch.lossMask),
    ...(packed === undefined ? {} : { sequences: { index_N: tf.tensor1d(packed.sequence, "int32"), perRow: packed.samplesPerRow } }),
    scalars: Object.fromEntries(Object.entries(objectiveScalars(spec)).map(([name, value]) => [name, tf.scalar(value)])),
  }).loss
}

describe.each(["dapo", "grpo", "gspo", "vespo"] as const satisfies readonly ObjectiveKind[])("%s", (kind) => {
  test("packed rows and shared prompts train what single rows train", () => {
    const spec: ObjectiveSpec = { kind, epsilonLow: 0.2, epsilonHigh: 0.3, temperature: 1, normalizer: windowNormalizer(kind, { ...windowTotals(samples), maxCompletionTokens: 8 }) }
    const single = step([collate(samples, { rows: samples.length, length: 16 })], spec)
    for (const share of ["never", "always"] as const) {
      const plan = planPacked(samples, { buckets: [{ rows: 1, length: 24 }, { rows: 2, length: 32 }], share, samplesPerRow: 4 })
      expect(plan.stats.forwardedTokens).toBe(plan.stats.realTokens - samples.length - (share === "always" ? 2 * 9 + 5 : 0))
      const packed = step(plan.batches.map((batch) => collatePacked(batch, plan.samplesPerRow)), spec)
      expect(Math.abs(packed.loss - single.loss)).toBeLessThan(2e-6 * Math.max(1, Math.abs(single.loss)))
      for (const [index, expected] of single.gradients.entries()) {
        const largest = Math.max(...expected.map(Math.abs))
        expect(largest).toBeGreaterThan(0)
        for (const [at, value] of packed.gradients[index]!.entries()) expect(Math.abs(value - expected[at]!)).toBeLessThanOrEqual(2e-5 * largest)
      }
    }
  })
})
