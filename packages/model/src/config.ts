// What a decoder transformer of the Llama family looks like, read from a Hugging Face `config.json`.
import { CohortError } from "@cohort/errors"

export interface RopeScaling {
  readonly kind: "llama3"
  readonly factor: number
  readonly lowFreqFactor: number
  readonly highFreqFactor: number
  readonly originalMaxPosition: number
}

/** Shape and switches of a model; sizes count elements. */
export interface ModelConfig {
  readonly architecture: string
  readonly vocabSize: number
  readonly hiddenSize: number
  readonly layers: number
  readonly heads: number
  readonly kvHeads: number
  readonly headDim: number
  readonly intermediateSize: number
  readonly maxPosition: number
  readonly ropeTheta: number
  readonly ropeScaling: RopeScaling | undefined
  readonly rmsNormEpsilon: number
  readonly tiedEmbeddings: boolean
  /** RMSNorm of queries and keys per head (Qwen3). */
  readonly qkNorm: boolean
  /** Bias on q, k and v (Qwen2, or `attention_bias`). */
  readonly qkvBias: boolean
  /** Bias on the attention output (`attention_bias`). */
  readonly outputBias: boolean
  readonly mlpBias: boolean
  /** Layers without rotary positions (SmolLM3). */
  readonly noRopeLayers: readonly boolean[]
  readonly initializerRange: number
  readonly eosTokenIds: readonly number[]
  /** The file as read: written back unchanged. */
  readonly source: Readonly<Record<string, unknown>>
}

interface Family {
  readonly qkNorm: boolean
  readonly qkvBias: (json: Json) => boolean
  readonly outputBias: (json: Json) => boolean
}
type Json = Readonly<Record<string, unknown>>

const attentionBias = (json: Json): boolean => json.attention_bias === true
const families: Readonly<Record<string, Family>> = {
  LlamaForCausalLM: { qkNorm: false, qkvBias: attentionBias, outputBias: attentionBias },
  MistralForCausalLM: { qkNorm: false, qkvBias: () => false, outputBias: () => false },
  Qwen2ForCausalLM: { qkNorm: false, qkvBias: () => true, outputBias: () => false },
  Qwen3ForCausalLM: { qkNorm: true, qkvBias: attentionBias, outputBias: attentionBias },
  SmolLM3ForCausalLM: { qkNorm: false, qkvBias: attentionBias, outputBias: attentionBias },
}

/**
 * Reads a `config.json`.
 * @throws CohortError `model_invalid` naming each key that is missing, wrong or not supported, all at once
 */
export function parseModelConfig(json: Json, where = "config.json"): ModelConfig {
  const problems: string[] = []
  const architecture = String((json.architectures as unknown[] | undefined)?.[0] ?? "")
  const family = families[architecture]
  if (family === undefined) problems.push(`architectures is ${JSON.stringify(json.architectures)}; supported: ${Object.keys(families).join(", ")}`)
  const count = (key: string, fallback?: number): number => {
    const value = json[key] ?? fallback
    if (typeof value === "number" && Number.isInteger(value) && value > 0) return value
    problems.push(`${key} is ${JSON.stringify(value)}; a positive whole number is needed`)
    return 1
  }
  const positive = (key: string, fallback: number): number => {
    const value = json[key] ?? fallback
    if (typeof value === "number" && value > 0) return value
    problems.push(`${key} is ${JSON.stringify(value)}; a positive number is needed`)
    return fallback
  }
  const hiddenSize = count("hidden_size")
  const heads = count("num_attention_heads")
  const kvHeads = count("num_key_value_heads", heads)
  const layers = count("num_hidden_layers")
  if (json.head_dim == null && hiddenSize % heads !== 0) problems.push(`hidden_size ${hiddenSize} is no multiple of num_attention_heads ${heads}, and head_dim is absent`)
  if (heads % kvHeads !== 0) problems.push(`num_attention_heads ${heads} is no multiple of num_key_value_heads ${kvHeads}`)
  if (json.hidden_act !== undefined && json.hidden_act !== "silu") problems.push(`hidden_act is ${JSON.stringify(json.hidden_act)}; only "silu" is supported`)
  // transformers 5 writes rope_parameters where 4 wrote rope_theta and rope_scaling.
  const rope = { ...(json.rope_scaling as Json | null | undefined), ...(json.rope_parameters as Json | null | undefined) }
  const ropeScaling = parseRopeScaling(rope, problems)
  if (json.use_sliding_window === true || (architecture === "MistralForCausalLM" && json.sliding_window != null))
    problems.push("sliding-window attention is not supported; set sliding_window to null if sequences stay inside the window")
  const noRope = json.no_rope_layers as readonly number[] | undefined
  const config: ModelConfig = {
    architecture,
    vocabSize: count("vocab_size"),
    hiddenSize,
    layers,
    heads,
    kvHeads,
    headDim: count("head_dim", Math.floor(hiddenSize / heads) || 1),
    intermediateSize: count("intermediate_size"),
    maxPosition: count("max_position_embeddings", 2048),
    ropeTheta: positive("rope_theta", typeof rope.rope_theta === "number" ? rope.rope_theta : 10_000),
    ropeScaling,
    rmsNormEpsilon: positive("rms_norm_eps", 1e-6),
    tiedEmbeddings: json.tie_word_embeddings === true,
    qkNorm: family?.qkNorm ?? false,
    qkvBias: family?.qkvBias(json) ?? false,
    outputBias: family?.outputBias(json) ?? false,
    mlpBias: json.mlp_bias === true,
    // SmolLM3 marks layers that have rotary positions with 1.
    noRopeLayers: Array.from({ length: layers }, (_, layer) => noRope !== undefined && noRope !== null && noRope[layer] === 0),
    initializerRange: positive("initializer_range", 0.02),
    eosTokenIds: (Array.isArray(json.eos_token_id) ? json.eos_token_id : [json.eos_token_id]).filter((id): id is number => typeof id === "number"),
    source: json,
  }
  if (config.headDim % 2 !== 0) problems.push(`head_dim is ${config.headDim}; rotary positions need an even number`)
  if (problems.length > 0)
    throw new CohortError("model_invalid", `${where}: ${problems.join("; ")}`, { hint: "Use a Llama, Qwen2, Qwen3, Mistral or SmolLM3 checkpoint without these settings.", details: { problems } })
  return config
}

function parseRopeScaling(rope: Json, problems: string[]): RopeScaling | undefined {
  const kind = rope.rope_type ?? rope.type ?? "default"
  if (kind === "default") return undefined
  if (kind !== "llama3") {
    problems.push(`rope type ${JSON.stringify(kind)} is not supported; supported: "default", "llama3"`)
    return undefined
  }
  return {
    kind: "llama3",
    factor: Number(rope.factor),
    lowFreqFactor: Number(rope.low_freq_factor),
    highFreqFactor: Number(rope.high_freq_factor),
    originalMaxPosition: Number(rope.original_max_position_embeddings),
  }
}

/**
 * Inverse rotary frequencies, [headDim / 2] (RoFormer, arXiv:2104.09864; scaling as Llama 3.1 stretches long wavelengths).
 */
export function inverseFrequencies(config: ModelConfig): Float32Array {
  const half = config.headDim / 2
  const out = new Float32Array(half)
  for (let i = 0; i < half; i++) {
    const frequency = 1 / config.ropeTheta ** (i / half)
    out[i] = config.ropeScaling === undefined ? frequency : stretch(frequency, config.ropeScaling)
  }
  return out
}

function stretch(frequency: number, scaling: RopeScaling): number {
  const wavelength = (2 * Math.PI) / frequency
  const low = scaling.originalMaxPosition / scaling.lowFreqFactor
  const high = scaling.originalMaxPosition / scaling.highFreqFactor
  if (wavelength < high) return frequency
  if (wavelength > low) return frequency / scaling.factor
  const smooth = (scaling.originalMaxPosition / wavelength - scaling.lowFreqFactor) / (scaling.highFreqFactor - scaling.lowFreqFactor)
  return ((1 - smooth) * frequency) / scaling.factor + smooth * frequency
}
