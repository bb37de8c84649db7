// Decoding as one XLA program: a loop over the tokens of a chunk around the whole model. Best for small models, where a call per token
// or per layer would cost more than the arithmetic.
// Shapes: B rows, S = T + C columns: T cached positions gathered for the chunk, then C columns for the tokens of the chunk itself, which
// all rows fill at the same index, so that a new key is one in-place slice update.
import { scalar, type Tensor } from "@tensorflow/tfjs-core"
import { type CompiledFunction, DType } from "@cohort/tensor"
import { type DecodeShape, hidden, readInputs } from "./decode-shape.ts"
import { decoderLayer, embed, rotaryRows, vocabulary } from "./layer.ts"
import type { RunnerModel } from "./model.ts"
import { filled, float } from "./ops.ts"
import { addSeen, type RowSettings, sampleRows } from "./sample.ts"

/**
 * The program of a shape. Inputs: steps (int32 scalar), cache [2L, B, K, T, h], then per row ids, positions, seeds (int32), inverse
 * temperatures (float32), greedy (int32); when it truncates top-k (int32), top-p, min-p; when it penalizes the penalties and seen
 * tokens [B, V] (int32). Outputs: ids and log-probs [B, C], new keys and values [2L, B, K, C, h], and when asked for the top ids and
 * log-probs [B, C, top].
 */
export function compileDecodeLoop(model: RunnerModel, shape: DecodeShape): CompiledFunction {
  return model.runtime.compile((...inputs) => decodeLoop(model, shape, inputs), { name: `decode ${shape.rows}x${shape.length}`, mode: "xla" })
}

function decodeLoop(model: RunnerModel, shape: DecodeShape, inputs: readonly Tensor[]): Tensor[] {
  const { raw, runtime, config, dtype } = model
  const { rows, length, columns, variant } = shape
  const { kvHeads, headDim, layers } = config
  const { steps, cache, lastIds, positions, seeds, inverseTemperature, greedyFlags, ...given } = readInputs(inputs, variant)
  const weights = model.weights()
  const greedy = raw.greater(greedyFlags, scalar(0, "int32"))
  const [topK, topP, minP] = given.truncation
  const truncation = topK === undefined || topP === undefined || minP === undefined ? undefined : { topK, topP, minP }
  const [penalty] = given.penalty
  const seenStart = given.seen

  // A slot keeps stale vectors past its length, and 0 * NaN would spread what a bad checkpoint left there.
  const column = raw.range(length)
  const valid = raw.less(raw.reshape(column, [1, 1, 1, length, 1]), raw.reshape(positions, [1, rows, 1, 1, 1]))
  const kept = raw.select(valid, cache, raw.cast(float(0), dtype))
  const room = filled(raw, [rows, kvHeads, columns, headDim], raw.cast(float(0), dtype))
  const planes = Array.from({ length: 2 * layers }, (_, plane) =>
    raw.concat([raw.reshape(raw.slice(kept, [plane, 0, 0, 0, 0], [1, rows, kvHeads, length, headDim]), [rows, kvHeads, length, headDim]), room], 2))
  const cachedMask = raw.select(raw.less(raw.reshape(column, [1, length]), raw.reshape(positions, [rows, 1])), float(0), float(hidden))

  const zero = scalar(0, "int32")
  const outputs: Tensor[] = [filled(raw, [rows, columns], zero), filled(raw, [rows, columns], float(0))]
  if (variant.top > 0) outputs.push(filled(raw, [rows, columns, variant.top], zero), filled(raw, [rows, columns, variant.top], float(0)))
  const seen = seenStart === undefined ? [] : [raw.greater(seenStart, zero)]
  const state = [zero, lastIds, ...outputs, ...seen, ...planes]

  const index = (axes: readonly Tensor[]): Tensor => raw.concat(axes.map((axis) => raw.reshape(axis, [1])), 0)
  const body = (...current: Tensor[]): Tensor[] => {
    const step = current[0]!
    const ids = current[1]!
    const results = current.slice(2, 2 + outputs.length)
    const seenNow = seenStart === undefined ? undefined : current[2 + outputs.length]!
    const cached = current.slice(2 + outputs.length + seen.length)
    const position = raw.add(positions, step)
    const rotary = rotaryRows(raw, model.rotary, position)
    const chunkMask = raw.select(raw.lessEqual(raw.reshape(raw.range(columns), [1, columns]), step), float(0), float(hidden))
    const mask = raw.concat([cachedMask, raw.add(filled(raw, [rows, columns], float(0)), chunkMask)], 1)
    const place = index([zero, zero, raw.add(step, scalar(length, "int32")), zero])
    let x = embed(raw, weights, ids)
    for (let layer = 0; layer < layers; layer++)
      x = decoderLayer(raw, config, weights, layer, x, rotary, (_, q, k, v) => {
        const put = (plane: number, row: Tensor): Tensor =>
          (cached[plane] = raw.dynamicUpdateSlice(cached[plane]!, raw.cast(raw.reshape(row, [rows, kvHeads, 1, headDim]), dtype), place))
        return attendRows(model, q, put(2 * layer, k), put(2 * layer + 1, v), mask)
      })
    const settings: RowSettings = {
      seed: seeds,
      position,
      inverseTemperature,
      greedy,
      truncation,
      repetition: penalty === undefined || seenNow === undefined ? undefined : { penalty, seen: seenNow },
    }
    const draw = sampleRows(runtime, raw, vocabulary(raw, config, weights, x), settings, variant.top)
    const place2 = index([zero, step])
    const written = [raw.dynamicUpdateSlice(results[0]!, raw.reshape(draw.ids, [rows, 1]), place2), raw.dynamicUpdateSlice(results[1]!, raw.reshape(draw.logProbs, [rows, 1]), place2)]
    if (variant.top > 0) {
      const place3 = index([zero, step, zero])
      written.push(raw.dynamicUpdateSlice(results[2]!, raw.reshape(draw.topIds!, [rows, 1, variant.top]), place3))
      written.push(raw.dynamicUpdateSlice(results[3]!, raw.reshape(draw.topLogProbs!, [rows, 1, variant.top]), place3))
    }
    return [raw.add(step, scalar(1, "int32")), draw.ids, ...written, ...(seenNow === undefined ? [] : [addSeen(raw, seenNow, draw.ids)]), ...cached]
  }
  const final = runtime.whileLoop!((step) => raw.less(step!, steps), body, state)
  const grown = final.slice(2 + outputs.length + seen.length)
  const fresh = raw.concat(grown.map((plane) => raw.reshape(raw.slice(plane, [0, 0, length, 0], [rows, kvHeads, columns, headDim]), [1, rows, kvHeads, columns, headDim])), 0)
  return [final[2]!, final[3]!, fresh, ...final.slice(4, 2 + outputs.length)]
}

/** q [B, H, h] over keys and values [B, K, S, h] with an additive mask [B, S]; returns [B, H*h]. */
function attendRows(model: RunnerModel, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor): Tensor {
  const { raw, config } = model
  const { heads, kvHeads, headDim } = config
  const [rows, , width] = keys.shape as [number, number, number, number]
  const grouped = raw.reshape(raw.mul(q, float(1 / Math.sqrt(headDim))), [rows, kvHeads, heads / kvHeads, headDim])
  const wide = (x: Tensor): Tensor => raw.cast(x, DType.float32)
  const scores = raw.add(raw.batchMatMul(grouped, wide(keys), false, true), raw.reshape(mask, [rows, 1, 1, width]))
  return raw.reshape(raw.batchMatMul(raw.softmax(scores), wide(values)), [rows, heads * headDim])
}
