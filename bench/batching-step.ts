// A training step on groups of 8 with prompts of 256 tokens and completions of 64: one sample a row against one prompt for the whole group.
// Same model, same loss and gradients (test/parity/objectives/packed.test.ts).
import { collate, collatePacked, type MicroBatch, planPacked, type Sample, windowTotals } from "@cohort/batching"
import { objectiveScalars, type ObjectiveSpec, policyObjective, windowNormalizer } from "@cohort/loss"
import { createPolicy, entropies, globalNorm, hiddenStates, logits, parseModelConfig, randomValues, targetLogProbs } from "@cohort/model"
import { openDefaultRuntime, type TensorRuntime } from "@cohort/tensor"
import * as tf from "@tensorflow/tfjs-core"
import { figure } from "./peer.ts"

const GROUPS = 2
const GROUP_SIZE = 8
const PROMPT = 256
const COMPLETION = 64
const VOCABULARY = 4096

const config = parseModelConfig({
  architectures: ["LlamaForCausalLM"], vocab_size: VOCABULARY, hidden_size: 256, num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 768,
  max_position_embeddings: 1024, rms_norm_eps: 1e-5, rope_theta: 10_000, tie_word_embeddings: true, initializer_range: 0.02, eos_token_id: 1, hidden_act: "silu",
})

const samples: Sample[] = Array.from({ length: GROUPS * GROUP_SIZE }, (_, index) => {
  const group = Math.floor(index / GROUP_SIZE)
  const length = PROMPT + COMPLETION
  return {
    id: `${index}`, groupId: `${group}`, rolloutId: `${index}`,
    tokenIds: Int32Array.from({ length }, (_, at) => (at < PROMPT ? group * 31 + at * 7 : index * 13 + at * 11) % VOCABULARY),
    lossMask: Uint8Array.from({ length }, (_, at) => (at < PROMPT ? 0 : 1)),
    behaviorLogProbs: Float32Array.from({ length }, (_, at) => (at < PROMPT ? 0 : -8.3)),
    versions: new Int32Array(length), advantage: (index % GROUP_SIZE) - 3.5, weight: 1, truncated: false,
  }
})

/** Loss and gradient norm of a micro-batch, as one compiled call. */
function stepOf(runtime: TensorRuntime, policy: ReturnType<typeof createPolicy>, spec: ObjectiveSpec, batch: MicroBatch): () => readonly number[] {
  const { rows, length, packed } = batch
  const size = rows * length
  const names = policy.specs.map(({ name }) => name)
  const scalars = objectiveScalars(spec)
  const run = runtime.compile(
    (ids_BT, positions_BT, until_BT, source_N, targets_N, sequence_N, floats_4N) => {
      const column = (index: number): tf.Tensor1D => tf.reshape(tf.slice(floats_4N!, [index, 0], [1, size]), [size])
      const current = policy.weights()
      const { value, grads } = tf.valueAndGrads((...values: tf.Tensor[]) => {
        const weights = Object.fromEntries(names.map((name, index) => [name, values[index]!]))
        const hidden_ND = hiddenStates(config, weights, ids_BT!, positions_BT!, packed === undefined ? undefined : until_BT!)
        const logits_NV = logits(config, weights, packed === undefined ? hidden_ND : tf.gather(hidden_ND, source_N as tf.Tensor1D))
        return policyObjective(spec, {
          rows, length,
          logProbs_N: targetLogProbs(runtime.raw, logits_NV, targets_N!, tf.scalar(1)) as tf.Tensor1D,
          mask_N: column(0), behaviorLogProbs_N: column(1), advantages_N: column(2), weights_N: column(3),
          entropy_N: entropies(logits_NV, tf.scalar(1)) as tf.Tensor1D,
          ...(packed === undefined ? {} : { sequences: { index_N: sequence_N as tf.Tensor1D, perRow: packed.samplesPerRow } }),
          scalars: Object.fromEntries(Object.entries(scalars).map(([name, scalar]) => [name, tf.scalar(scalar)])),
        }).loss
      })(names.map((name) => current[name]!))
      return [tf.reshape(value, [1]), tf.reshape(globalNorm(grads), [1])]
    },
    { name: "bench step", mode: "graph" },
  )
  const inputs = [
    tf.tensor2d(batch.tokenIds, [rows, length], "int32"),
    tf.tensor2d(batch.positions, [rows, length], "int32"),
    tf.tensor2d(packed?.visibleUntil ?? batch.positions, [rows, length], "int32"),
    tf.tensor1d((packed?.source ?? batch.positions).map((source, at) => at - (at % length) + source), "int32"),
    tf.tensor1d(batch.targets, "int32"),
    tf.tensor1d(packed?.sequence ?? batch.positions, "int32"),
    tf.tensor2d([...batch.lossMask, ...batch.behaviorLogProbs, ...batch.advantages, ...batch.weights], [4, size]),
  ]
  return () => tf.tidy(() => run(...inputs).map((tensor) => tensor.dataSync()[0]!))
}

const runtime = await openDefaultRuntime({ env: process.env, signal: new AbortController().signal, backend: "tensorflow" })
const policy = createPolicy(runtime, config, randomValues(config, 1))
const spec: ObjectiveSpec = { kind: "dapo", epsilonLow: 0.2, epsilonHigh: 0.28, temperature: 1, normalizer: windowNormalizer("dapo", { ...windowTotals(samples), maxCompletionTokens: COMPLETION }) }
const single = [collate(samples, { rows: samples.length, length: PROMPT + COMPLETION })]
const plan = planPacked(samples, { buckets: [{ rows: 16, length: 320 }, { rows: GROUPS, length: 760 }], samplesPerRow: GROUP_SIZE })
const shared = plan.batches.map((batch) => collatePacked(batch, plan.samplesPerRow))

/** Fastest of several steps, the two forms in turns so that a busy machine slows both. */
const forms = [single, shared].map((batches) => batches.map((batch) => stepOf(runtime, policy, spec, batch)))
const seconds = [Infinity, Infinity]
const losses = [0, 0]
for (let round = 0; round < 6; round++)
  for (const [form, steps] of forms.entries()) {
    const start = performance.now()
    losses[form] = steps.reduce((sum, step) => sum + step()[0]!, 0)
    seconds[form] = Math.min(seconds[form]!, (performance.now() - start) / 1000)
  }
figure("training step, groups of 8, prompts of 256, completions of 64", {
  backend: runtime.info.backend, unsharedSeconds: seconds[0], sharedSeconds: seconds[1], speedup: seconds[0]! / seconds[1]!, chosenByItself: plan.shared,
  unsharedPositions: samples.length * (PROMPT + COMPLETION), sharedPositions: plan.stats.paddedTokens, lossDifference: Math.abs(losses[0]! - losses[1]!),
})
runtime.close()
