// The decoder transformer, written once in tfjs-core ops: eager on any backend, or traced into one native call.
import { add, cast, gather, pad, reshape, slice, type Tensor, tensor1d } from "@tensorflow/tfjs-core"
import { attention, causalMask, linear, mergeHeads, packedMask, rmsNorm, rotaryTables, rotate, splitHeads, swiglu } from "./blocks.ts"
import type { ModelConfig } from "./config.ts"
import { projected } from "./lora.ts"
import { inverseFrequencies } from "./rope.ts"

/** Parameters by their resident name; see layout.ts. */
export type Weights = Readonly<Record<string, Tensor>>

/**
 * Hidden states after the final norm, [N, D] with N = B*T.
 * @param ids_BT int32 token ids
 * @param positions_BT int32 positions; rows are padded on the right, so the causal mask alone hides padding from real tokens
 * @param visibleUntil_BT int32, for rows that hold several samples: see {@link packedMask}
 */
export function hiddenStates(config: ModelConfig, weights: Weights, ids_BT: Tensor, positions_BT: Tensor, visibleUntil_BT?: Tensor): Tensor {
  const [rows, length] = ids_BT.shape as [number, number]
  const { heads, kvHeads, headDim, rmsNormEpsilon: epsilon } = config
  const [cosine, sine] = rotaryTables(positions_BT, tensor1d(inverseFrequencies(config)))
  const mask = visibleUntil_BT === undefined ? causalMask(length) : packedMask(visibleUntil_BT)
  let x = gather(weights.embed!, cast(reshape(ids_BT, [rows * length]), "int32"))
  for (let layer = 0; layer < config.layers; layer++) {
    const w = (name: string): Tensor => weights[`layers.${layer}.${name}`]!
    const h = rmsNorm(x, w("attention_norm"), epsilon)
    let [q, k, v] = splitHeads(projected(config, weights, `layers.${layer}.qkv`, h, config.qkvBias ? w("qkv_bias") : undefined), rows, heads, kvHeads, headDim)
    if (config.qkNorm) {
      q = rmsNorm(q, w("q_norm"), epsilon)
      k = rmsNorm(k, w("k_norm"), epsilon)
    }
    if (config.noRopeLayers[layer] !== true) {
      q = rotate(q, cosine, sine)
      k = rotate(k, cosine, sine)
    }
    const mixed = mergeHeads(attention(q, k, v, mask))
    x = add(x, projected(config, weights, `layers.${layer}.o`, mixed, config.outputBias ? w("o_bias") : undefined))
    const gated = swiglu(projected(config, weights, `layers.${layer}.gate_up`, rmsNorm(x, w("mlp_norm"), epsilon), config.mlpBias ? w("gate_up_bias") : undefined))
    x = add(x, projected(config, weights, `layers.${layer}.down`, gated, config.mlpBias ? w("down_bias") : undefined))
  }
  return rmsNorm(x, weights.final_norm!, epsilon)
}

/** Logits of every position, [N, V]. */
export function logits(config: ModelConfig, weights: Weights, hidden_ND: Tensor): Tensor {
  return linear(hidden_ND, config.tiedEmbeddings ? weights.embed! : weights.head!)
}

/** Ids that each position predicts: the next token of its row; the last position of a row predicts id 0 and is never trained. */
export function nextTokens(ids_BT: Tensor): Tensor {
  const [rows, length] = ids_BT.shape as [number, number]
  const rest = slice(ids_BT, [0, 1], [rows, length - 1])
  return reshape(pad(rest, [[0, 0], [0, 1]]), [rows * length])
}

