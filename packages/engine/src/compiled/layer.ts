// One decoder layer over rows of hidden states, whatever the rows are: prompt tokens in prefill, sequences in decode. How rows attend
// is the caller's. The residual stream, norms and softmax are float32 always; matrix products take the dtype of the weights.
// Shapes: N rows, D hidden, H query heads, K key-value heads, h head size, F intermediate size.
import { type Tensor, tensor } from "@tensorflow/tfjs-core"
import { inverseFrequencies, type ModelConfig, type Weights } from "@cohort/model"
import { DType } from "@cohort/tensor"
import { filled, float, type Ops } from "./ops.ts"

/** Cosines and sines of each row's position, [N, 1, h/2]. */
export interface Rotary {
  readonly cosine: Tensor
  readonly sine: Tensor
}

/** Mixes values: q [N, H, h], k and v [N, K, h], all float32; returns [N, H*h]. */
export type Attend = (layer: number, q: Tensor, k: Tensor, v: Tensor) => Tensor

/** Angles of positions 0..length-1: [cosine, sine], each [length, h/2] on the host. */
export function rotaryTables(config: ModelConfig, length: number): { readonly cosine: Float32Array; readonly sine: Float32Array } {
  const frequencies = inverseFrequencies(config)
  const cosine = new Float32Array(length * frequencies.length)
  const sine = new Float32Array(length * frequencies.length)
  for (let position = 0; position < length; position++)
    frequencies.forEach((frequency, i) => {
      // The model's forward pass forms the angle in float32 too.
      const angle = Math.fround(position * frequency)
      cosine[position * frequencies.length + i] = Math.cos(angle)
      sine[position * frequencies.length + i] = Math.sin(angle)
    })
  return { cosine, sine }
}

/** The tables as tensors, [length, h/2]. */
export function rotaryTensors(config: ModelConfig, length: number): Rotary {
  const { cosine, sine } = rotaryTables(config, length)
  const shape = [length, config.headDim / 2]
  return { cosine: tensor(cosine, shape), sine: tensor(sine, shape) }
}

/** Rows of the tables at `positions` [N]: each [N, 1, h/2]. */
export function rotaryRows(ops: Ops, tables: Rotary, positions: Tensor): Rotary {
  const shape = [positions.shape[0]!, 1, tables.cosine.shape[1]!]
  return { cosine: ops.reshape(ops.gather(tables.cosine, positions), shape), sine: ops.reshape(ops.gather(tables.sine, positions), shape) }
}

/** x / rms(x) * gain over the last axis (RMSNorm, arXiv:1910.07467, eq. 4). */
export function rmsNorm(ops: Ops, x: Tensor, gain: Tensor, epsilon: number): Tensor {
  const reciprocal = ops.rsqrt(ops.add(ops.mean(ops.square(x), -1, true), float(epsilon)))
  return ops.mul(ops.mul(x, reciprocal), gain)
}

/** x [N, in] float32 times a matrix [out, in] of any dtype: [N, out] float32. */
export function linear(ops: Ops, x: Tensor, weight: Tensor, bias?: Tensor): Tensor {
  const product = ops.cast(ops.matMul(ops.cast(x, ops.dtypeOf(weight)), weight, false, true), DType.float32)
  return bias === undefined ? product : ops.add(product, bias)
}

/** Rotates halves of the last axis (RoFormer, arXiv:2104.09864, in the half-split form of Hugging Face checkpoints). */
export function rotate(ops: Ops, x_NHh: Tensor, rotary: Rotary): Tensor {
  const [rows, heads, size] = x_NHh.shape as [number, number, number]
  const half = size / 2
  const first = ops.slice(x_NHh, [0, 0, 0], [rows, heads, half])
  const second = ops.slice(x_NHh, [0, 0, half], [rows, heads, half])
  const { cosine, sine } = rotary
  return ops.concat([ops.sub(ops.mul(first, cosine), ops.mul(second, sine)), ops.add(ops.mul(second, cosine), ops.mul(first, sine))], 2)
}

/** Gains of the query and key norms as one array, [H + K, h]: both are normed, and rotated, together. */
export function headGains(ops: Ops, config: ModelConfig, weights: Weights, layer: number): Tensor {
  const gain = (name: string, heads: number): Tensor => ops.mul(filled(ops, [heads, config.headDim], float(1)), weights[`layers.${layer}.${name}`]!)
  return ops.concat([gain("q_norm", config.heads), gain("k_norm", config.kvHeads)], 0)
}

/** Embedding rows of `ids` [N]: [N, D] float32. */
export function embed(ops: Ops, weights: Weights, ids_N: Tensor): Tensor {
  return ops.cast(ops.gather(weights.embed!, ids_N), DType.float32)
}

/** Hidden states [N, D] after layer number `layer`. */
export function decoderLayer(ops: Ops, config: ModelConfig, weights: Weights, layer: number, x_ND: Tensor, rotary: Rotary, attend: Attend): Tensor {
  const { heads, kvHeads, headDim, rmsNormEpsilon: epsilon } = config
  const w = (name: string): Tensor => weights[`layers.${layer}.${name}`]!
  const rows = x_ND.shape[0]!
  const qkv = linear(ops, rmsNorm(ops, x_ND, w("attention_norm"), epsilon), w("qkv"), config.qkvBias ? w("qkv_bias") : undefined)
  const turned = heads + kvHeads
  let qk = ops.reshape(ops.slice(qkv, [0, 0], [rows, turned * headDim]), [rows, turned, headDim])
  const v = ops.reshape(ops.slice(qkv, [0, turned * headDim], [rows, kvHeads * headDim]), [rows, kvHeads, headDim])
  if (config.qkNorm) qk = rmsNorm(ops, qk, weights[gainsName(layer)] ?? headGains(ops, config, weights, layer), epsilon)
  if (config.noRopeLayers[layer] !== true) qk = rotate(ops, qk, rotary)
  const mixed = attend(layer, ops.slice(qk, [0, 0, 0], [rows, heads, headDim]), ops.slice(qk, [0, heads, 0], [rows, kvHeads, headDim]), v)
  const x = ops.add(x_ND, linear(ops, mixed, w("o"), config.outputBias ? w("o_bias") : undefined))
  const gateUp = linear(ops, rmsNorm(ops, x, w("mlp_norm"), epsilon), w("gate_up"), config.mlpBias ? w("gate_up_bias") : undefined)
  return ops.add(x, linear(ops, swiglu(ops, gateUp), w("down"), config.mlpBias ? w("down_bias") : undefined))
}

/** Name under which {@link headGains} may lie among the weights, formed once outside a loop. */
export function gainsName(layer: number): string {
  return `layers.${layer}.head_gains`
}

/** silu(gate) * up of [gate | up] (SwiGLU, arXiv:2002.05202). */
export function swiglu(ops: Ops, gateUp_N2F: Tensor): Tensor {
  const [rows, width] = gateUp_N2F.shape as [number, number]
  const gate = ops.slice(gateUp_N2F, [0, 0], [rows, width / 2])
  const up = ops.slice(gateUp_N2F, [0, width / 2], [rows, width / 2])
  return ops.mul(ops.mul(gate, ops.sigmoid(gate)), up)
}

/** Logits [N, V] float32 of hidden states that are not normed yet. */
export function vocabulary(ops: Ops, config: ModelConfig, weights: Weights, x_ND: Tensor): Tensor {
  return linear(ops, rmsNorm(ops, x_ND, weights.final_norm!, config.rmsNormEpsilon), config.tiedEmbeddings ? weights.embed! : weights.head!)
}
