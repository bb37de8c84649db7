// The supported architectures: what is fixed in each, and what a key means that its config.json leaves out.

export type Json = Readonly<Record<string, unknown>>

export interface Family {
  /** RMSNorm of queries and keys per head. */
  readonly qkNorm: boolean
  readonly qkvBias: (json: Json) => boolean
  readonly outputBias: (json: Json) => boolean
  /** Values of absent keys, as transformers takes them. */
  readonly tiedEmbeddings: boolean
  readonly ropeTheta: number
  readonly maxPosition: number
  /** Absent: hidden_size / num_attention_heads. */
  readonly headDim?: number
}

const never = (): boolean => false
const always = (): boolean => true
const byKey = (json: Json): boolean => json.attention_bias === true

export const families: Readonly<Record<string, Family>> = {
  LlamaForCausalLM: { qkNorm: false, qkvBias: byKey, outputBias: byKey, tiedEmbeddings: false, ropeTheta: 10_000, maxPosition: 2048 },
  MistralForCausalLM: { qkNorm: false, qkvBias: never, outputBias: never, tiedEmbeddings: false, ropeTheta: 10_000, maxPosition: 131_072 },
  Qwen2ForCausalLM: { qkNorm: false, qkvBias: always, outputBias: never, tiedEmbeddings: false, ropeTheta: 10_000, maxPosition: 32_768 },
  Qwen3ForCausalLM: { qkNorm: true, qkvBias: byKey, outputBias: byKey, tiedEmbeddings: false, ropeTheta: 10_000, maxPosition: 32_768, headDim: 128 },
  SmolLM3ForCausalLM: { qkNorm: false, qkvBias: byKey, outputBias: byKey, tiedEmbeddings: true, ropeTheta: 2_000_000, maxPosition: 32_768 },
}

export const supportedArchitectures: readonly string[] = Object.keys(families)
