// Which parameters a model has, under which checkpoint names. Projections that read the same input are one resident matrix
// (q, k, v; gate, up): fewer and larger products. A checkpoint tensor is then a run of its rows, so nothing is copied or turned.
import type { ModelConfig } from "./config.ts"

/** Rows of a resident parameter that are one tensor of the checkpoint. */
export interface ParameterPart {
  readonly checkpointName: string
  readonly shape: readonly number[]
}

export interface ParameterSpec {
  /** Name of the resident variable: `layers.0.qkv`. */
  readonly name: string
  /** Matrices are [out, in], as in the checkpoint. */
  readonly shape: readonly number[]
  readonly parts: readonly ParameterPart[]
  /** Norms and biases get no weight decay. */
  readonly decay: boolean
  /** kaiming: uniform within 1 / sqrt(in), as PEFT makes an adapter's A. */
  readonly init: "normal" | "ones" | "zeros" | "kaiming"
}

/** All parameters in a fixed order: embeddings, layers from first to last, final norm, head. */
export function parameterLayout(config: ModelConfig): readonly ParameterSpec[] {
  const { hiddenSize, intermediateSize, headDim } = config
  const queryRows = config.heads * headDim
  const kvRows = config.kvHeads * headDim
  const specs: ParameterSpec[] = []
  const add = (name: string, parts: readonly ParameterPart[], decay: boolean, init: ParameterSpec["init"]): void => {
    const rows = parts.reduce((total, part) => total + part.shape[0]!, 0)
    specs.push({ name, shape: [rows, ...parts[0]!.shape.slice(1)], parts, decay, init })
  }
  const matrix = (name: string, parts: readonly (readonly [string, number])[], input: number): void =>
    add(name, parts.map(([part, rows]) => ({ checkpointName: `${part}.weight`, shape: [rows, input] })), true, "normal")
  const bias = (name: string, parts: readonly (readonly [string, number])[]): void =>
    add(name, parts.map(([part, rows]) => ({ checkpointName: `${part}.bias`, shape: [rows] })), false, "zeros")
  const norm = (name: string, part: string, size: number): void => add(name, [{ checkpointName: `${part}.weight`, shape: [size] }], false, "ones")

  matrix("embed", [["model.embed_tokens", config.vocabSize]], hiddenSize)
  for (let layer = 0; layer < config.layers; layer++) {
    const at = `model.layers.${layer}`
    const name = (suffix: string): string => `layers.${layer}.${suffix}`
    const qkv = [
      [`${at}.self_attn.q_proj`, queryRows],
      [`${at}.self_attn.k_proj`, kvRows],
      [`${at}.self_attn.v_proj`, kvRows],
    ] as const
    const gateUp = [
      [`${at}.mlp.gate_proj`, intermediateSize],
      [`${at}.mlp.up_proj`, intermediateSize],
    ] as const
    norm(name("attention_norm"), `${at}.input_layernorm`, hiddenSize)
    matrix(name("qkv"), qkv, hiddenSize)
    if (config.qkvBias) bias(name("qkv_bias"), qkv)
    if (config.qkNorm) {
      norm(name("q_norm"), `${at}.self_attn.q_norm`, headDim)
      norm(name("k_norm"), `${at}.self_attn.k_norm`, headDim)
    }
    matrix(name("o"), [[`${at}.self_attn.o_proj`, hiddenSize]], queryRows)
    if (config.outputBias) bias(name("o_bias"), [[`${at}.self_attn.o_proj`, hiddenSize]])
    norm(name("mlp_norm"), `${at}.post_attention_layernorm`, hiddenSize)
    matrix(name("gate_up"), gateUp, hiddenSize)
    if (config.mlpBias) bias(name("gate_up_bias"), gateUp)
    matrix(name("down"), [[`${at}.mlp.down_proj`, hiddenSize]], intermediateSize)
    if (config.mlpBias) bias(name("down_bias"), [[`${at}.mlp.down_proj`, hiddenSize]])
  }
  norm("final_norm", "model.norm", hiddenSize)
  if (!config.tiedEmbeddings) matrix("head", [["lm_head", config.vocabSize]], hiddenSize)
  return specs
}

/** Number of elements of all parameters; tied embeddings count once. */
export function parameterCount(specs: readonly ParameterSpec[]): number {
  return specs.reduce((total, spec) => total + spec.shape.reduce((product, dim) => product * dim, 1), 0)
}
