// The forward pass over whole prompts that fills the cache, and the one that scores given tokens.
// Shapes: R prompts padded to P tokens on the right (causality alone hides the padding), N = R*P.
import type { Tensor } from "@tensorflow/tfjs-core"
import { type CompiledFunction, type CompileMode, DType } from "@cohort/tensor"
import type { Weights } from "@cohort/model"
import { type Attend, decoderLayer, embed, type Rotary, vocabulary } from "./layer.ts"
import type { RunnerModel } from "./model.ts"
import { filled, float, type Ops } from "./ops.ts"

/** ids [R, P] to keys and values [2L, R, K, P, h] in the cache's dtype. */
export function compilePrefill(model: RunnerModel, mode: CompileMode): CompiledFunction {
  return model.runtime.compile(
    (ids) => {
      const planes: Tensor[] = []
      promptStates(model, model.weights(), ids!, (keys, values) => planes.push(keys, values))
      const { raw } = model
      return [raw.concat(planes.map((plane) => raw.reshape(raw.cast(plane, model.dtype), [1, ...plane.shape])), 0)]
    },
    { name: "prefill", mode, autoCluster: false },
  )
}

/** ids [1, P] to hidden states [P, D] before the final norm. */
export function compileHidden(model: RunnerModel, mode: CompileMode): CompiledFunction {
  return model.runtime.compile((ids) => [promptStates(model, model.weights(), ids!, () => {})], { name: "score", mode })
}

/** hidden [N, D] and targets [N] to log-probs [N] at temperature 1. */
export function compileTargets(model: RunnerModel, mode: CompileMode): CompiledFunction {
  const { raw, config } = model
  return model.runtime.compile((hidden, targets) => [raw.neg(raw.sparseCrossEntropy(vocabulary(raw, config, model.weights(), hidden!), targets!)[0])], { name: "score", mode })
}

/** Hidden states [N, D] of padded prompts; `keep` sees each layer's keys and values [R, K, P, h], rotated. */
function promptStates(model: RunnerModel, weights: Weights, ids_RP: Tensor, keep: (keys: Tensor, values: Tensor) => void): Tensor {
  const { raw, config } = model
  const [prompts, length] = ids_RP.shape as [number, number]
  const rows = prompts * length
  const mask = causal(raw, length)
  const rotary = promptRotary(raw, model.rotary, prompts, length)
  const attend: Attend = (_, q, k, v) => {
    const turned = (x: Tensor): Tensor => raw.transpose(raw.reshape(x, [prompts, length, x.shape[1]!, config.headDim]), [0, 2, 1, 3])
    const keys = turned(k)
    const values = turned(v)
    keep(keys, values)
    return attendPrompts(raw, turned(q), keys, values, mask)
  }
  let x = embed(raw, weights, raw.reshape(ids_RP, [rows]))
  for (let layer = 0; layer < config.layers; layer++) x = decoderLayer(raw, config, weights, layer, x, rotary, attend)
  return x
}

/** Tables of positions 0..P-1 repeated for each prompt, [N, 1, h/2]. */
export function promptRotary(ops: Ops, tables: Rotary, prompts: number, length: number): Rotary {
  const repeat = (table: Tensor): Tensor => {
    const half = table.shape[1]!
    const one = ops.reshape(ops.slice(table, [0, 0], [length, half]), [1, length, half])
    return ops.reshape(ops.mul(filled(ops, [prompts, 1, 1], float(1)), one), [prompts * length, 1, half])
  }
  return { cosine: repeat(tables.cosine), sine: repeat(tables.sine) }
}

/** Additive causal mask [P, P]. */
export function causal(ops: Ops, length: number): Tensor {
  const index = ops.range(length)
  return ops.select(ops.less(ops.reshape(index, [length, 1]), ops.reshape(index, [1, length])), filled(ops, [length, length], float(-1e9)), filled(ops, [length, length], float(0)))
}

/** q [R, H, P, h] over keys and values [R, K, P, h]; returns [N, H*h]. */
export function attendPrompts(ops: Ops, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor): Tensor {
  const [prompts, heads, length, size] = q.shape as [number, number, number, number]
  const kvHeads = keys.shape[1]!
  // The query heads that share a key head become rows of one product.
  const grouped = ops.reshape(ops.mul(q, float(1 / Math.sqrt(size))), [prompts, kvHeads, (heads / kvHeads) * length, size])
  const scores = ops.add(ops.reshape(ops.batchMatMul(grouped, keys, false, true), [prompts, heads, length, length]), ops.reshape(mask, [1, 1, length, length]))
  const weights = ops.reshape(ops.softmax(scores), [prompts, kvHeads, (heads / kvHeads) * length, length])
  const mixed = ops.reshape(ops.batchMatMul(weights, values), [prompts, heads, length, size])
  return ops.reshape(ops.cast(ops.transpose(mixed, [0, 2, 1, 3]), DType.float32), [prompts * length, heads * size])
}
