// What the tests of this folder share: the runtime, small models of every kind, and the full forward pass to compare with.
import { div, logSoftmax, tensor, tidy } from "@tensorflow/tfjs-core"
import { hiddenStates, logits, type ModelConfig, parseModelConfig, type Policy } from "@cohort/model"
import { findRuntime, openRuntime, type TensorRuntime } from "@cohort/tensor"
import type { ModelRunner, SlotInput } from "../../runner.ts"

const lookup = findRuntime({ env: process.env })
/** Path of libtensorflow, or undefined when the tests that need it must be skipped. */
export const libraryPath = lookup.status === "found" ? lookup.runtime.libraryPath : undefined
if (lookup.status !== "found") process.stderr.write(`tests of the compiled runner are skipped: ${lookup.reason}. ${lookup.hint}\n`)

let opened: Promise<TensorRuntime> | undefined

/** One runtime per test process, since tfjs keeps its state on the global object: libtensorflow where it is installed, else plain JavaScript. */
export function testRuntime(): Promise<TensorRuntime> {
  opened ??= openRuntime(libraryPath === undefined ? { backend: "cpu" } : { backend: "tensorflow", libraryPath, threads: 2, lanes: 2 })
  return opened
}

const small = { vocab_size: 53, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2, num_hidden_layers: 2, intermediate_size: 48, max_position_embeddings: 128, initializer_range: 0.3 }

/** One model for each switch of the configuration, all switches covered. */
export const smallModels: Readonly<Record<string, ModelConfig>> = {
  "Qwen3: query and key norms, tied embeddings": parseModelConfig({ ...small, architectures: ["Qwen3ForCausalLM"], head_dim: 16, tie_word_embeddings: true }),
  "Llama: all biases, stretched positions, a head of its own": parseModelConfig({
    ...small,
    architectures: ["LlamaForCausalLM"],
    attention_bias: true,
    mlp_bias: true,
    rope_theta: 500,
    rope_scaling: { rope_type: "llama3", factor: 4, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 32 },
  }),
  "SmolLM3: a layer without positions, as many key heads as query heads": parseModelConfig({ ...small, architectures: ["SmolLM3ForCausalLM"], num_key_value_heads: 4, no_rope_layers: [1, 0] }),
  "Qwen2: biases on q, k and v, one key head": parseModelConfig({ ...small, architectures: ["Qwen2ForCausalLM"], num_key_value_heads: 1, vocab_size: 61 }),
}

/** Random values with a spread in norms and biases too, so that a forgotten one shows. */
export function lively(values: (name: string, shape: readonly number[]) => Float32Array): typeof values {
  return (name, shape) => {
    const out = values(name, shape)
    return shape.length === 1 ? out.map((value, i) => value + 0.4 * Math.sin(i * 1.7 + name.length)) : out
  }
}

/** Log-probs of the next token after each position, by the model's own forward pass. */
export function forwardLogProbs(policy: Policy, ids: readonly number[], temperature = 1): number[][] {
  return tidy(() => {
    const shape: [number, number] = [1, ids.length]
    const hidden = hiddenStates(policy.config, policy.weights(), tensor([...ids], shape, "int32"), tensor([...ids.keys()], shape, "int32"))
    return logSoftmax(div(logits(policy.config, policy.weights(), hidden), temperature)).arraySync() as number[][]
  })
}

/** A slot's input with everything off but what is given. */
export function slotInput(given: Partial<SlotInput> & Pick<SlotInput, "slot" | "lastToken" | "position">): SlotInput {
  return { seed: 1, temperature: 0, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, history: new Int32Array(0), ...given }
}

export interface Generated {
  readonly ids: number[]
  readonly logProbs: number[]
  readonly promptLength: number
}

/** Continues sequences in chunks of the given lengths; sequence i sits in `slots[i]`. */
export async function generate(runner: ModelRunner, prompts: readonly (readonly number[])[], slots: readonly number[], chunks: readonly number[], settings: (row: number) => Partial<SlotInput> = () => ({})): Promise<Generated[]> {
  const out = prompts.map((prompt) => ({ ids: [...prompt], logProbs: [] as number[], promptLength: prompt.length }))
  await runner.prefill(prompts.map((prompt, i) => ({ tokenIds: Int32Array.from(prompt.slice(0, -1)), slots: [slots[i]!] })))
  for (const steps of chunks) {
    const inputs = out.map(({ ids }, i) => slotInput({ slot: slots[i]!, lastToken: ids.at(-1)!, position: ids.length - 1, history: Int32Array.from(ids), ...settings(i) }))
    const chunk = await runner.decode(inputs, steps, 0)
    out.forEach((sequence, row) => {
      sequence.ids.push(...chunk.tokenIds.subarray(row * steps, (row + 1) * steps))
      sequence.logProbs.push(...chunk.logProbs.subarray(row * steps, (row + 1) * steps))
    })
  }
  return out
}
