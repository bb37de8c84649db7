import { describe, expect, test } from "bun:test"
import { isCohortError } from "@cohort/errors"
import { parseModelConfig } from "./config.ts"

const base = { architectures: ["LlamaForCausalLM"], vocab_size: 40, hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 48 }

/** The sentences that a config is refused with. */
function problemsOf(json: Record<string, unknown>): readonly string[] {
  try {
    parseModelConfig(json, "config.json")
  } catch (error) {
    if (isCohortError(error) && error.code === "model_invalid") return error.details!["problems"] as string[]
    throw error
  }
  return []
}

test("reads sizes and takes the architecture's own defaults for what is absent", () => {
  const llama = parseModelConfig(base)
  expect(llama).toMatchObject({ headDim: 8, kvHeads: 2, maxPosition: 2048, ropeTheta: 10_000, rmsNormEpsilon: 1e-6, tiedEmbeddings: false, qkvBias: false, qkNorm: false, eosTokenIds: [] })
  expect(parseModelConfig({ ...base, architectures: ["Qwen3ForCausalLM"] })).toMatchObject({ headDim: 128, qkNorm: true, tiedEmbeddings: false, maxPosition: 32_768 })
  expect(parseModelConfig({ ...base, architectures: ["Qwen2ForCausalLM"] })).toMatchObject({ headDim: 8, qkvBias: true, outputBias: false })
  expect(parseModelConfig({ ...base, architectures: ["SmolLM3ForCausalLM"] })).toMatchObject({ tiedEmbeddings: true, ropeTheta: 2_000_000 })
  expect(parseModelConfig({ ...base, attention_bias: true })).toMatchObject({ qkvBias: true, outputBias: true, mlpBias: false })
  expect(parseModelConfig({ ...base, num_key_value_heads: null, head_dim: null })).toMatchObject({ kvHeads: 4, headDim: 8 })
})

test("end tokens come as a number, a list or null", () => {
  expect(parseModelConfig({ ...base, eos_token_id: 2 }).eosTokenIds).toEqual([2])
  expect(parseModelConfig({ ...base, eos_token_id: [2, 5] }).eosTokenIds).toEqual([2, 5])
  expect(parseModelConfig({ ...base, eos_token_id: null }).eosTokenIds).toEqual([])
})

test("SmolLM3: layers without positions come from marks, or from the interval", () => {
  const smollm = { ...base, architectures: ["SmolLM3ForCausalLM"], num_hidden_layers: 4 }
  expect(parseModelConfig({ ...smollm, no_rope_layers: [1, 0, 1, 0] }).noRopeLayers).toEqual([false, true, false, true])
  expect(parseModelConfig(smollm).noRopeLayers).toEqual([false, false, false, true])
  expect(parseModelConfig({ ...smollm, no_rope_layer_interval: 2 }).noRopeLayers).toEqual([false, true, false, true])
  expect(problemsOf({ ...smollm, no_rope_layers: [1] })[0]).toContain("a list of 4 zeros and ones")
  // The key means nothing to other architectures.
  expect(parseModelConfig({ ...base, no_rope_layers: [0, 0] }).noRopeLayers).toEqual([false, false])
})

describe("refuses", () => {
  test("all faults at once, each with key and value", () => {
    const problems = problemsOf({ architectures: ["GPT2LMHeadModel"], hidden_size: 30, num_attention_heads: 4, num_key_value_heads: 3, num_hidden_layers: 0, vocab_size: "40", hidden_act: "gelu", tie_word_embeddings: "yes" })
    const text = problems.join("\n")
    for (const part of ['["GPT2LMHeadModel"]', "supported: LlamaForCausalLM", "30 is no multiple", "no multiple of num_key_value_heads 3", "num_hidden_layers is 0", 'vocab_size is "40"', "intermediate_size is missing", '"gelu"', 'tie_word_embeddings is "yes"'])
      expect(text).toContain(part)
  })

  test.each([
    [{ head_dim: 7 }, "head_dim is 7; rotary positions need an even number"],
    [{ use_sliding_window: true }, "sliding-window"],
    [{ layer_types: ["full_attention", "sliding_attention"] }, "sliding-window"],
    [{ architectures: ["MistralForCausalLM"], sliding_window: 4096 }, "sliding-window"],
    [{ quantization_config: { bits: 4 } }, "quantized weights"],
    [{ rms_norm_eps: 0 }, "rms_norm_eps is 0"],
    [{ architectures: "LlamaForCausalLM" }, "architectures is"],
  ])("%j", (change, message) => {
    const problems = problemsOf({ ...base, ...change })
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(message)
  })

  test("nothing of a Mistral without a window", () => {
    expect(problemsOf({ ...base, architectures: ["MistralForCausalLM"], sliding_window: null, layer_types: ["full_attention", "full_attention"] })).toEqual([])
  })
})
