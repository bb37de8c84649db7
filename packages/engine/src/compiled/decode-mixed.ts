// Decoding with the matrix products as nodes of a graph, which oneDNN computes, and what lies between them in XLA programs that the
// layers share. Best for models whose products dominate: a chunk is still one native call, a loop of the graph.
// Shapes: B rows, S = T + C columns of which T are cached and C have room for the chunk, D hidden, H and K heads, h head size.
import { scalar, type Tensor } from "@tensorflow/tfjs-core"
import type { Weights } from "@cohort/model"
import { type CompiledFunction, DType } from "@cohort/tensor"
import { attributes } from "./attributes.ts"
import { type DecodeShape, hidden, readInputs } from "./decode-shape.ts"
import { gainsName, rmsNorm, rotaryRows, rotate, swiglu } from "./layer.ts"
import type { RunnerModel } from "./model.ts"
import { filled, float } from "./ops.ts"
import { addSeen, sampleRows } from "./sample.ts"

type Program = (...inputs: Tensor[]) => Tensor[]

export interface MixedOptions {
  /** Products keep a rearranged copy of their weights, which must not change while the program lives; see `packedMatMul`. */
  readonly packed: boolean
}

/** The program of a shape; inputs and outputs as those of `compileDecodeLoop`. */
export function compileDecodeMixed(model: RunnerModel, shape: DecodeShape, options: MixedOptions): CompiledFunction {
  const parts = createParts(model, shape)
  // Clusters of the runtime's own choosing would copy what the loop carries at each step, weights and cache included.
  return model.runtime.compile((...inputs) => decodeMixed(model, shape, parts, options, inputs), { name: `decode ${shape.rows}x${shape.length}`, mode: "graph", autoCluster: false })
}

function decodeMixed(model: RunnerModel, shape: DecodeShape, parts: Parts, options: MixedOptions, inputs: readonly Tensor[]): Tensor[] {
  const { raw, runtime, config, dtype } = model
  const { rows, length, columns, variant } = shape
  const { heads, kvHeads, headDim, layers } = config
  const width = length + columns
  const given = readInputs(inputs, variant)
  const weights = model.weights()
  const zero = scalar(0, "int32")
  const outputs: Tensor[] = [filled(raw, [rows, columns], zero), filled(raw, [rows, columns], float(0))]
  if (variant.top > 0) outputs.push(filled(raw, [rows, columns, variant.top], zero), filled(raw, [rows, columns, variant.top], float(0)))
  if (given.seen !== undefined) outputs.push(given.seen)
  const zeros = new Map<number, Tensor>()
  if (options.packed) for (const { shape: [width = 0, ...rest] } of Object.values(weights)) if (rest.length === 1 && !zeros.has(width)) zeros.set(width, filled(raw, [width], raw.cast(float(0), dtype)))
  const product = (x: Tensor, weight: Tensor): Tensor => (options.packed ? raw.packedMatMul(x, weight, zeros.get(weight.shape[0]!)) : raw.matMul(x, weight, false, true))
  /** Writes rows into a plane without copying it: nothing else reads the plane between its last use and this. */
  const write = (plane: Tensor, places: Tensor, values: Tensor): Tensor => raw.one("InplaceUpdate", [plane, places, values], [attributes.type("T", dtype)])
  const attend = (q: Tensor, keys: Tensor, values: Tensor, mask: Tensor): Tensor => {
    const whole = (plane: Tensor): Tensor => raw.reshape(plane, [rows, kvHeads, width, headDim])
    const scores = raw.cast(raw.batchMatMul(q, whole(keys), false, true), DType.float32)
    return raw.reshape(raw.batchMatMul(raw.cast(raw.softmax(raw.add(scores, mask)), dtype), whole(values)), [rows, heads * headDim])
  }
  const body = (...state: Tensor[]): Tensor[] => {
    const [step, ids, ...rest] = state as [Tensor, Tensor, ...Tensor[]]
    const planes = rest.slice(outputs.length)
    const [x, normed, cosine, sine, mask, places] = parts.begin(raw.gather(weights.embed!, ids), given.positions, step, weights["layers.0.attention_norm"]!) as [Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
    let residual = x
    let h = normed
    for (let layer = 0; layer < layers; layer++) {
      const w = (name: string): Tensor => weights[`layers.${layer}.${name}`]!
      const turn = config.noRopeLayers[layer] === true ? parts.split : parts.turn
      const extras = [...(config.qkvBias ? [w("qkv_bias")] : []), ...(config.qkNorm ? [weights[gainsName(layer)]!] : [])]
      const [q, key, value] = turn(product(h, w("qkv")), cosine, sine, ...extras) as [Tensor, Tensor, Tensor]
      const keys = (planes[2 * layer] = write(planes[2 * layer]!, places, key))
      const values = (planes[2 * layer + 1] = write(planes[2 * layer + 1]!, places, value))
      const afterAttention = parts.join(residual, product(attend(q, keys, values, mask), w("o")), w("mlp_norm"), ...(config.outputBias ? [w("o_bias")] : []))
      const gated = parts.activate(product(afterAttention[1]!, w("gate_up")), ...(config.mlpBias ? [w("gate_up_bias")] : []))
      const nextNorm = layer + 1 < layers ? weights[`layers.${layer + 1}.attention_norm`]! : weights.final_norm!
      const afterMlp = parts.join(afterAttention[0]!, product(gated[0]!, w("down")), nextNorm, ...(config.mlpBias ? [w("down_bias")] : []))
      residual = afterMlp[0]!
      h = afterMlp[1]!
    }
    const logits = product(h, vocabularyMatrix(model, weights))
    const perRow = [given.seeds, given.positions, given.inverseTemperature, given.greedyFlags, ...given.truncation, ...given.penalty]
    return [...parts.draw(logits, step, ...perRow, ...rest.slice(0, outputs.length)), ...planes]
  }
  const final = runtime.whileLoop!((step) => raw.less(step!, given.steps), body, [zero, given.lastIds, ...outputs, ...parts.open(given.cache, given.positions)])
  const [written] = parts.places(given.positions)
  const fresh = raw.concat(final.slice(2 + outputs.length).map((plane) => raw.reshape(raw.gather(plane, written!), [1, rows, kvHeads, columns, headDim])), 0)
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
  const width = length + columns
  const cluster = (name: string, fn: (...inputs: Tensor[]) => Tensor[]): Program => runtime.cluster!(fn, name)
  const wide = (x: Tensor): Tensor => raw.cast(x, DType.float32)
  const narrow = (x: Tensor): Tensor => raw.cast(x, dtype)
  const biased = (x: Tensor, bias: Tensor | undefined): Tensor => (bias === undefined ? wide(x) : raw.add(wide(x), bias))
  const int = (value: number): Tensor => scalar(value, "int32")
  /** Where each row's and head's columns begin in a flat plane, [B, K, 1]. */
  const origins = (): Tensor => raw.reshape(raw.mul(raw.range(rows * kvHeads), int(width)), [rows, kvHeads, 1])

  /** One plane [B*K*S, h] per layer for keys and for values, with room for the chunk and stale vectors zeroed: 0 * NaN would spread what a bad checkpoint left there. */
  const open = cluster("open cache", (cache, positions) => {
    const valid = raw.less(raw.reshape(raw.range(length), [1, 1, 1, length, 1]), raw.reshape(positions!, [1, rows, 1, 1, 1]))
    const kept = raw.select(valid, cache!, narrow(float(0)))
    const room = filled(raw, [1, rows, kvHeads, columns, headDim], narrow(float(0)))
    return Array.from({ length: 2 * layers }, (_, plane) =>
      raw.reshape(raw.concat([raw.slice(kept, [plane, 0, 0, 0, 0], [1, rows, kvHeads, length, headDim]), room], 3), [rows * kvHeads * width, headDim]))
  })

  /** Places in a flat plane of the chunk's columns, [B*K*C]. */
  const places = cluster("chunk places", (positions) => [
    raw.reshape(raw.add(raw.add(origins(), raw.reshape(positions!, [rows, 1, 1])), raw.reshape(raw.range(columns), [1, 1, columns])), [rows * kvHeads * columns]),
  ])

  const begin = cluster("begin step", (rowsOfTable, positions, step, gain) => {
    const x = wide(rowsOfTable!)
    const position = raw.add(positions!, step!)
    const rotary = rotaryRows(raw, model.rotary, position)
    const seen = raw.lessEqual(raw.reshape(raw.range(width), [1, 1, 1, width]), raw.reshape(position, [rows, 1, 1, 1]))
    const place = raw.reshape(raw.add(origins(), raw.reshape(position, [rows, 1, 1])), [rows * kvHeads])
    return [x, narrow(rmsNorm(raw, x, gain!, epsilon)), rotary.cosine, rotary.sine, raw.select(seen, float(0), float(hidden)), place]
  })

  /** A product split into queries [B, K, H/K, h], scaled, keys [B*K, h] and values [B*K, h]. */
  const turnWith = (turns: boolean) => cluster("split heads", (product, cosine, sine, ...extras) => {
    const qkv = biased(product!, config.qkvBias ? extras[0] : undefined)
    const turned = heads + kvHeads
    let qk = raw.reshape(raw.slice(qkv, [0, 0], [rows, turned * headDim]), [rows, turned, headDim])
    if (config.qkNorm) qk = rmsNorm(raw, qk, extras.at(-1)!, epsilon)
    if (turns) qk = rotate(raw, qk, { cosine: cosine!, sine: sine! })
    const q = raw.reshape(raw.mul(raw.slice(qk, [0, 0, 0], [rows, heads, headDim]), float(1 / Math.sqrt(headDim))), [rows, kvHeads, heads / kvHeads, headDim])
    const flat = (x: Tensor): Tensor => narrow(raw.reshape(x, [rows * kvHeads, headDim]))
    return [narrow(q), flat(raw.slice(qk, [0, heads, 0], [rows, kvHeads, headDim])), flat(raw.slice(qkv, [0, turned * headDim], [rows, kvHeads * headDim]))]
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

  return { open, places, begin, turn: turnWith(true), split: turnWith(false), join, activate, draw }
}
