// Decoding with the matrix products as nodes of a graph, which oneDNN computes, and all between them in XLA programs that the layers
// share. Best for models whose products dominate: a chunk is still one native call, a loop of the graph.
// Shapes: B rows, T cached positions, C columns for the chunk's own tokens, D hidden, H and K heads, h head size.
import { scalar, type Tensor } from "@tensorflow/tfjs-core"
import type { Weights } from "@cohort/model"
import { type CompiledFunction, DType } from "@cohort/tensor"
import { type DecodeShape, hidden, readInputs } from "./decode-shape.ts"
import { gainsName, rmsNorm, rotaryRows, rotate, swiglu } from "./layer.ts"
import type { RunnerModel } from "./model.ts"
import { filled, float } from "./ops.ts"
import { addSeen, sampleRows } from "./sample.ts"

type Program = (...inputs: Tensor[]) => Tensor[]

/** The program of a shape; inputs and outputs as those of `compileDecodeLoop`. */
export function compileDecodeMixed(model: RunnerModel, shape: DecodeShape): CompiledFunction {
  const parts = createParts(model, shape)
  return model.runtime.compile((...inputs) => decodeMixed(model, shape, parts, inputs), { name: `decode ${shape.rows}x${shape.length}`, mode: "graph" })
}

function decodeMixed(model: RunnerModel, shape: DecodeShape, parts: Parts, inputs: readonly Tensor[]): Tensor[] {
  const { raw, runtime, config, dtype } = model
  const { rows, columns, variant } = shape
  const { kvHeads, headDim, layers } = config
  const given = readInputs(inputs, variant)
  const weights = model.weights()
  const planes = parts.open(given.cache, given.positions)
  const zero = scalar(0, "int32")
  const outputs: Tensor[] = [filled(raw, [rows, columns], zero), filled(raw, [rows, columns], float(0))]
  if (variant.top > 0) outputs.push(filled(raw, [rows, columns, variant.top], zero), filled(raw, [rows, columns, variant.top], float(0)))
  if (given.seen !== undefined) outputs.push(given.seen)
  const empty = filled(raw, [rows, kvHeads, columns, headDim], raw.cast(float(0), dtype))
  const chunk = planes.map(() => empty)
  const body = (...state: Tensor[]): Tensor[] => {
    const [step, ids, ...rest] = state as [Tensor, Tensor, ...Tensor[]]
    const grown = rest.slice(outputs.length)
    const [x, normed, cosine, sine, cachedMask, chunkMask] = parts.begin(raw.gather(weights.embed!, ids), given.positions, step, weights["layers.0.attention_norm"]!) as [Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
    let residual = x
    let h = normed
    for (let layer = 0; layer < layers; layer++) {
      const w = (name: string): Tensor => weights[`layers.${layer}.${name}`]!
      const attend = config.noRopeLayers[layer] === true ? parts.attendUnturned : parts.attend
      const extras = [...(config.qkvBias ? [w("qkv_bias")] : []), ...(config.qkNorm ? [weights[gainsName(layer)]!] : [])]
      const [mixed, keys, values] = attend(
        raw.matMul(h, w("qkv"), false, true), planes[2 * layer]!, planes[2 * layer + 1]!, grown[2 * layer]!, grown[2 * layer + 1]!, cosine, sine, cachedMask, chunkMask, step, ...extras,
      ) as [Tensor, Tensor, Tensor]
      grown[2 * layer] = keys
      grown[2 * layer + 1] = values
      const afterAttention = parts.join(residual, raw.matMul(mixed, w("o"), false, true), w("mlp_norm"), ...(config.outputBias ? [w("o_bias")] : []))
      const gated = parts.activate(raw.matMul(afterAttention[1]!, w("gate_up"), false, true), ...(config.mlpBias ? [w("gate_up_bias")] : []))
      const nextNorm = layer + 1 < layers ? weights[`layers.${layer + 1}.attention_norm`]! : weights.final_norm!
      const afterMlp = parts.join(afterAttention[0]!, raw.matMul(gated[0]!, w("down"), false, true), nextNorm, ...(config.mlpBias ? [w("down_bias")] : []))
      residual = afterMlp[0]!
      h = afterMlp[1]!
    }
    const logits = raw.matMul(h, vocabularyMatrix(model, weights), false, true)
    const perRow = [given.seeds, given.positions, given.inverseTemperature, given.greedyFlags, ...given.truncation, ...given.penalty]
    return [...parts.draw(logits, step, ...perRow, ...rest.slice(0, outputs.length)), ...grown]
  }
  const final = runtime.whileLoop!((step) => raw.less(step!, given.steps), body, [zero, given.lastIds, ...outputs, ...chunk])
  const fresh = raw.concat(final.slice(2 + outputs.length).map((plane) => raw.reshape(plane, [1, rows, kvHeads, columns, headDim])), 0)
  return [final[2]!, final[3]!, fresh, ...(variant.top > 0 ? final.slice(4, 6) : [])]
}

function vocabularyMatrix(model: RunnerModel, weights: Weights): Tensor {
  return model.config.tiedEmbeddings ? weights.embed! : weights.head!
}

type Parts = ReturnType<typeof createParts>

/** What lies between the products, each compiled once and used by all layers. */
function createParts(model: RunnerModel, shape: DecodeShape) {
  const { raw, runtime, config, dtype } = model
  const { rows, length, columns, variant } = shape
  const { heads, kvHeads, headDim, layers, rmsNormEpsilon: epsilon } = config
  const cluster = (name: string, fn: (...inputs: Tensor[]) => Tensor[]): Program => runtime.cluster!(fn, name)
  const wide = (x: Tensor): Tensor => raw.cast(x, DType.float32)
  const narrow = (x: Tensor): Tensor => raw.cast(x, dtype)
  const biased = (x: Tensor, bias: Tensor | undefined): Tensor => (bias === undefined ? wide(x) : raw.add(wide(x), bias))

  /** One tensor per layer for keys and for values, stale vectors zeroed. */
  const open = cluster("open cache", (cache, positions) => {
    const valid = raw.less(raw.reshape(raw.range(length), [1, 1, 1, length, 1]), raw.reshape(positions!, [1, rows, 1, 1, 1]))
    const kept = raw.select(valid, cache!, narrow(float(0)))
    return Array.from({ length: 2 * layers }, (_, plane) => raw.reshape(raw.slice(kept, [plane, 0, 0, 0, 0], [1, rows, kvHeads, length, headDim]), [rows, kvHeads, length, headDim]))
  })

  const begin = cluster("begin step", (rowsOfTable, positions, step, gain) => {
    const x = wide(rowsOfTable!)
    const rotary = rotaryRows(raw, model.rotary, raw.add(positions!, step!))
    const cachedMask = raw.select(raw.less(raw.reshape(raw.range(length), [1, length]), raw.reshape(positions!, [rows, 1])), float(0), float(hidden))
    const chunkMask = raw.select(raw.lessEqual(raw.reshape(raw.range(columns), [1, columns]), step!), float(0), float(hidden))
    return [x, narrow(rmsNorm(raw, x, gain!, epsilon)), rotary.cosine, rotary.sine, cachedMask, chunkMask]
  })

  const attendWith = (turns: boolean) => cluster("attention", (product, cachedKeys, cachedValues, chunkKeys, chunkValues, cosine, sine, cachedMask, chunkMask, step, ...extras) => {
    const qkv = biased(product!, config.qkvBias ? extras[0] : undefined)
    const turned = heads + kvHeads
    let qk = raw.reshape(raw.slice(qkv, [0, 0], [rows, turned * headDim]), [rows, turned, headDim])
    if (config.qkNorm) qk = rmsNorm(raw, qk, extras.at(-1)!, epsilon)
    if (turns) qk = rotate(raw, qk, { cosine: cosine!, sine: sine! })
    const zero = scalar(0, "int32")
    const place = raw.concat([zero, zero, step!, zero].map((axis) => raw.reshape(axis, [1])), 0)
    const put = (chunk: Tensor, row: Tensor): Tensor => raw.dynamicUpdateSlice(chunk, narrow(raw.reshape(row, [rows, kvHeads, 1, headDim])), place)
    const keys = put(chunkKeys!, raw.slice(qk, [0, heads, 0], [rows, kvHeads, headDim]))
    const values = put(chunkValues!, raw.slice(qkv, [0, turned * headDim], [rows, kvHeads * headDim]))
    const q = raw.reshape(raw.mul(raw.slice(qk, [0, 0, 0], [rows, heads, headDim]), float(1 / Math.sqrt(headDim))), [rows, kvHeads, heads / kvHeads, headDim])
    const score = (against: Tensor, mask: Tensor): Tensor => raw.add(raw.batchMatMul(q, wide(against), false, true), raw.reshape(mask, [-1, 1, 1, mask.shape[1]!]))
    const cachedScores = score(cachedKeys!, cachedMask!)
    const chunkScores = score(keys, chunkMask!)
    const max = raw.maximum(raw.max(cachedScores, 3, true), raw.max(chunkScores, 3, true))
    const cachedMass = raw.exp(raw.sub(cachedScores, max))
    const chunkMass = raw.exp(raw.sub(chunkScores, max))
    const total = raw.add(raw.sum(cachedMass, 3, true), raw.sum(chunkMass, 3, true))
    const mixed = raw.div(raw.add(raw.batchMatMul(cachedMass, wide(cachedValues!)), raw.batchMatMul(chunkMass, wide(values))), total)
    return [narrow(raw.reshape(mixed, [rows, heads * headDim])), keys, values]
  })

  /** Adds a product to the residual stream: [stream, its norm for the next product]. */
  const join = cluster("join residual", (x, product, gain, bias) => {
    const sum = raw.add(x!, biased(product!, bias))
    return [sum, narrow(rmsNorm(raw, sum, gain!, epsilon))]
  })

  const activate = cluster("activate", (product, bias) => [narrow(swiglu(raw, biased(product!, bias)))])

  /** Draws, writes the outputs at `step`, counts on: [step + 1, ids, ...outputs]. */
  const draw = cluster("draw", (product, step, seeds, positions, inverseTemperature, greedyFlags, ...more) => {
    const zero = scalar(0, "int32")
    const truncation = variant.truncates ? { topK: more[0]!, topP: more[1]!, minP: more[2]! } : undefined
    const penalty = variant.penalizes ? more[variant.truncates ? 3 : 0] : undefined
    const outputs = more.slice((variant.truncates ? 3 : 0) + (variant.penalizes ? 1 : 0))
    const seen = variant.penalizes ? outputs.at(-1)! : undefined
    const drawn = sampleRows(runtime, raw, wide(product!), {
      seed: seeds!,
      position: raw.add(positions!, step!),
      inverseTemperature: inverseTemperature!,
      greedy: raw.greater(greedyFlags!, zero),
      truncation,
      repetition: penalty === undefined || seen === undefined ? undefined : { penalty, seen: raw.greater(seen, zero) },
    }, variant.top)
    const index = (axes: readonly Tensor[]): Tensor => raw.concat(axes.map((axis) => raw.reshape(axis, [1])), 0)
    const put = (all: Tensor, value: Tensor): Tensor => raw.dynamicUpdateSlice(all, raw.reshape(value, [rows, 1, ...all.shape.slice(2)]), index([zero, step!, ...all.shape.slice(2).map(() => zero)]))
    const written = [put(outputs[0]!, drawn.ids), put(outputs[1]!, drawn.logProbs)]
    if (drawn.topIds !== undefined && drawn.topLogProbs !== undefined) written.push(put(outputs[2]!, drawn.topIds), put(outputs[3]!, drawn.topLogProbs))
    if (seen !== undefined) written.push(raw.cast(addSeen(raw, raw.greater(seen, zero), drawn.ids), DType.int32))
    return [raw.add(step!, scalar(1, "int32")), drawn.ids, ...written]
  })

  return { open, begin, attend: attendWith(true), attendUnturned: attendWith(false), join, activate, draw }
}
