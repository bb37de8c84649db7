// What a decoder transformer of the Llama family looks like, read from a Hugging Face `config.json`.
import { CohortError } from "@cohort/errors"
import { families, type Json, supportedArchitectures } from "./families.ts"
import type { LoraSettings } from "./lora.ts"
import { parseRope, type RopeScaling } from "./rope.ts"

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
  /** The adapter that computes beside the weights, where there is one; not part of the file. */
  readonly lora?: LoraSettings
  /** The file as read: written back unchanged. */
  readonly source: Readonly<Record<string, unknown>>
}

/**
 * Reads a `config.json`. Keys that the file leaves out mean what they mean for that architecture in transformers.
 * @throws CohortError `model_invalid` naming each key that is missing, wrong or not supported, all at once
 * @example parseModelConfig(JSON.parse(await Bun.file("model/config.json").text())).layers // 4
 */
export function parseModelConfig(json: Json, where = "config.json"): ModelConfig {
  const problems: string[] = []
  const architecture = String((Array.isArray(json.architectures) ? (json.architectures as unknown[])[0] : undefined) ?? "")
  const family = families[architecture]
  if (family === undefined) problems.push(`architectures is ${JSON.stringify(json.architectures)}; supported: ${supportedArchitectures.join(", ")}`)
  const count = (key: string, fallback?: number): number => {
    const value = json[key] ?? fallback
    if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value
    problems.push(`${key} is ${JSON.stringify(value) ?? "missing"}; a positive whole number is needed`)
    return 1
  }
  const positive = (key: string, fallback: number): number => {
    const value = json[key] ?? fallback
    if (typeof value === "number" && Number.isFinite(value) && value > 0) return value
    problems.push(`${key} is ${JSON.stringify(value)}; a positive number is needed`)
    return fallback
  }
  const hiddenSize = count("hidden_size")
  const heads = count("num_attention_heads")
  const kvHeads = count("num_key_value_heads", heads)
  const layers = count("num_hidden_layers")
  if (json.head_dim == null && family?.headDim === undefined && hiddenSize % heads !== 0)
    problems.push(`hidden_size ${hiddenSize} is no multiple of num_attention_heads ${heads}, and head_dim is absent`)
  if (heads % kvHeads !== 0) problems.push(`num_attention_heads ${heads} is no multiple of num_key_value_heads ${kvHeads}`)
  const headDim = count("head_dim", family?.headDim ?? (Math.floor(hiddenSize / heads) || 1))
  if (headDim % 2 !== 0) problems.push(`head_dim is ${headDim}; rotary positions need an even number`)
  const rope = parseRope(json, family?.ropeTheta ?? 10_000, problems)
  refuseUnsupported(json, architecture, problems)
  const config: ModelConfig = {
    architecture,
    vocabSize: count("vocab_size"),
    hiddenSize,
    layers,
    heads,
    kvHeads,
    headDim,
    intermediateSize: count("intermediate_size"),
    maxPosition: count("max_position_embeddings", family?.maxPosition ?? 2048),
    ropeTheta: rope.theta,
    ropeScaling: rope.scaling,
    rmsNormEpsilon: positive("rms_norm_eps", 1e-6),
    tiedEmbeddings: flag(json, "tie_word_embeddings", family?.tiedEmbeddings ?? false, problems),
    qkNorm: family?.qkNorm ?? false,
    qkvBias: family?.qkvBias(json) ?? false,
    outputBias: family?.outputBias(json) ?? false,
    mlpBias: flag(json, "mlp_bias", false, problems),
    noRopeLayers: noRopeLayers(json, architecture, layers, problems),
    initializerRange: positive("initializer_range", 0.02),
    eosTokenIds: (Array.isArray(json.eos_token_id) ? json.eos_token_id : [json.eos_token_id]).filter((id): id is number => typeof id === "number"),
    source: json,
  }
  if (problems.length > 0)
    throw new CohortError("model_invalid", `${where}: ${problems.join("; ")}`, { hint: "Use a Llama, Qwen2, Qwen3, Mistral or SmolLM3 checkpoint without these settings.", details: { problems } })
  return config
}

function flag(json: Json, key: string, absent: boolean, problems: string[]): boolean {
  const value = json[key] ?? absent
  if (typeof value === "boolean") return value
  problems.push(`${key} is ${JSON.stringify(value)}; true or false is needed`)
  return absent
}

/** What would run, and give other numbers than the model's. */
function refuseUnsupported(json: Json, architecture: string, problems: string[]): void {
  if (json.hidden_act !== undefined && json.hidden_act !== "silu") problems.push(`hidden_act is ${JSON.stringify(json.hidden_act)}; only "silu" is supported`)
  const windowed =
    json.use_sliding_window === true ||
    (architecture === "MistralForCausalLM" && json.sliding_window != null) ||
    (Array.isArray(json.layer_types) && json.layer_types.some((type) => type !== "full_attention"))
  if (windowed) problems.push("sliding-window attention is not supported; set sliding_window to null if sequences stay inside the window")
  if (json.quantization_config != null) problems.push("quantization_config is set; quantized weights are not supported")
}

/** SmolLM3 marks layers that have rotary positions with 1; without marks, each layer that completes an interval has none. */
function noRopeLayers(json: Json, architecture: string, layers: number, problems: string[]): readonly boolean[] {
  if (architecture !== "SmolLM3ForCausalLM") return Array.from({ length: layers }, () => false)
  const marks = json.no_rope_layers
  if (marks === undefined || marks === null) {
    const interval = Number(json.no_rope_layer_interval ?? 4)
    return Array.from({ length: layers }, (_, layer) => (layer + 1) % interval === 0)
  }
  if (!Array.isArray(marks) || marks.length !== layers || marks.some((mark) => mark !== 0 && mark !== 1)) {
    problems.push(`no_rope_layers is ${JSON.stringify(marks)}; a list of ${layers} zeros and ones is needed`)
    return []
  }
  return marks.map((mark) => mark === 0)
}
