// Samples in groups, the model and the objectives that tests of the training step share.
import { type Sample, windowTotals } from "@cohort/batching"
import { type ObjectiveKind, type ObjectiveSpec, windowNormalizer } from "@cohort/loss"
import { parseModelConfig } from "@cohort/model"

export const config = parseModelConfig({
  architectures: ["LlamaForCausalLM"], vocab_size: 19, hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 24,
  max_position_embeddings: 64, rms_norm_eps: 1e-5, rope_theta: 10_000, tie_word_embeddings: true, initializer_range: 0.4, eos_token_id: 1, hidden_act: "silu",
})

/** Groups of completions of one prompt; some tokens of a completion are a tool's. */
export const samples: readonly Sample[] = [
  { prompt: 9, completions: [4, 2, 6] },
  { prompt: 5, completions: [3, 3] },
  { prompt: 1, completions: [5] },
].flatMap(({ prompt, completions }, group) =>
  completions.map((completion, member): Sample => {
    const length = prompt + completion
    const trained = (index: number): boolean => index >= prompt && (index - prompt) % 4 !== 3
    return {
      id: `${group}/${member}`, groupId: `${group}`, rolloutId: `${group}/${member}`,
      tokenIds: Int32Array.from({ length }, (_, index) => (index < prompt ? group * 5 + index * 3 : group + member * 7 + index * 11) % 19),
      lossMask: Uint8Array.from({ length }, (_, index) => (trained(index) ? 1 : 0)),
      behaviorLogProbs: Float32Array.from({ length }, (_, index) => (trained(index) ? -2.7 - 0.1 * ((index * 7 + member) % 9) : 0)),
      versions: Int32Array.from({ length }, (_, index) => (trained(index) ? member : -1)),
      advantage: member - 0.7, weight: member === 1 ? 0.5 : 1, truncated: false,
    }
  }),
)

const totals = { ...windowTotals(samples), maxCompletionTokens: 8 }
export const specOf = (kind: ObjectiveKind, change: Partial<ObjectiveSpec> = {}): ObjectiveSpec =>
  ({ kind, epsilonLow: 0.2, epsilonHigh: 0.3, temperature: 0.9, normalizer: windowNormalizer(kind, totals), ...change })
export const specs: readonly ObjectiveSpec[] = [
  specOf("dapo", { entropyCoefficient: 0.05, windowTokens: totals.trainedTokens }),
  specOf("grpo", { klCoefficient: 0.1, klUnbiased: true, correction: { mode: "sequence_mask", max: 3 } }),
  specOf("gspo"),
  specOf("gspo_token", { offPolicyThreshold: 0.05 }),
  specOf("luspo", { level: "sequence", entropyThreshold: 2 }),
  specOf("vespo"),
]
