// The model runner in plain tfjs-core ops, for backends that trace nothing (wasm, cpu): one eager step per token. Slow, and right.
import { dispose, keep, tensor, type Tensor, tidy } from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import type { ChunkOutput, ModelRunner, RunnerInfo, SlotInput } from "../runner.ts"
import { ladder } from "./buckets.ts"
import { checkInputs, checkPrompts, checkSizes, checkTokens } from "./checks.ts"
import type { CompiledRunnerOptions } from "./create-runner.ts"
import { drawOnHost } from "./draw.ts"
import { decoderLayer, embed, rotaryRows, rotaryTensors, vocabulary } from "./layer.ts"
import { coreOps as ops, filled, float } from "./ops.ts"
import { attendPrompts, causal } from "./prefill.ts"
import { loadPolicy, openPolicy } from "./weights.ts"

/** Keys and values of one slot, per layer keys then values, each [K, length, h]. */
type SlotPlanes = readonly Tensor[]

/**
 * A runner on any tensor backend. Options as for the compiled one; bf16 is computed as float32.
 * @throws CohortError as createCompiledRunner
 */
export function createFallbackRunner(options: CompiledRunnerOptions): ModelRunner {
  const { runtime, slots, maxModelLength } = options
  checkSizes(options)
  const owned = "folder" in options.model
  const policy = "policy" in options.model ? options.model.policy : openPolicy(runtime, options.model.folder, "f32")
  const { config } = policy
  const { layers, heads, kvHeads, headDim, vocabSize } = config
  const info: RunnerInfo = { slots, maxModelLength, vocabSize, chunkSizes: ladder(1, Math.min(8, maxModelLength)), parameters: policy.parameters, dtype: "f32", backend: runtime.info.backend }
  const rotary = rotaryTensors(config, maxModelLength)
  const cached = new Map<number, SlotPlanes>()

  const ints = (values: readonly number[] | Int32Array): Tensor => tensor(Int32Array.from(values), [values.length], "int32")
  const replace = (slot: number, planes: SlotPlanes): void => {
    dispose([...(cached.get(slot) ?? [])])
    cached.set(slot, planes.map((plane) => keep(plane)))
  }

  /** Hidden states [P, D] of one prompt; `store` sees keys and values [1, K, P, h]. */
  function promptStates(tokenIds: Int32Array, store: (keys: Tensor, values: Tensor) => void): Tensor {
    const length = tokenIds.length
    const weights = policy.weights()
    const mask = causal(ops, length)
    const rows = rotaryRows(ops, rotary, ops.range(length))
    const turned = (x: Tensor): Tensor => ops.transpose(ops.reshape(x, [1, length, x.shape[1]!, headDim]), [0, 2, 1, 3])
    let x = embed(ops, weights, ints(tokenIds))
    for (let layer = 0; layer < layers; layer++)
      x = decoderLayer(ops, config, weights, layer, x, rows, (_, q, k, v) => {
        const [keys, values] = [turned(k), turned(v)]
        store(keys, values)
        return attendPrompts(ops, turned(q), keys, values, mask)
      })
    return x
  }

  function prefill(requests: Parameters<ModelRunner["prefill"]>[0]): void {
    checkPrompts(info, requests)
    for (const { tokenIds, slots: targets } of requests)
      tidy(() => {
        if (tokenIds.length === 0) return
        const planes: Tensor[] = []
        const flat = (x: Tensor): Tensor => ops.reshape(x, [kvHeads, tokenIds.length, headDim])
        promptStates(tokenIds, (keys, values) => planes.push(flat(keys), flat(values)))
        for (const slot of targets) replace(slot, planes.map((plane) => plane.clone()))
      })
  }

  function decode(inputs: readonly SlotInput[], steps: number, topLogProbs: number): ChunkOutput {
    checkInputs(info, inputs, steps)
    const rows = inputs.length
    const cells = rows * steps
    const out = { tokenIds: new Int32Array(cells), logProbs: new Float32Array(cells), topTokenIds: new Int32Array(cells * topLogProbs), topLogProbs: new Float32Array(cells * topLogProbs).fill(-Infinity) }
    const histories = inputs.map((input) => [...input.history])
    let last = inputs.map((input) => input.lastToken)
    const width = Math.max(...inputs.map((input) => input.position))
    tidy(() => {
      // Rows are padded on the right to the longest; the tokens of this chunk follow in further columns, the same for all rows.
      let planes: Tensor[] = Array.from({ length: 2 * layers }, (_, plane) => ops.concat(inputs.map((input) => padded(input, plane, width)), 0))
      for (let step = 0; step < steps; step++) {
        const { logits, grown } = tidy(() => stepForward(inputs, last, step, width, planes)) as unknown as { logits: Tensor; grown: Tensor[] }
        if (step > 0) dispose(planes)
        planes = grown
        const values = logits.dataSync() as Float32Array
        logits.dispose()
        last = inputs.map((input, row) => {
          const draw = drawOnHost(values.subarray(row * vocabSize, (row + 1) * vocabSize), input, histories[row]!, input.position + step, topLogProbs)
          const cell = row * steps + step
          out.tokenIds[cell] = draw.tokenId
          out.logProbs[cell] = draw.logProb
          out.topTokenIds.set(draw.topIds, cell * topLogProbs)
          out.topLogProbs.set(draw.topLogProbs, cell * topLogProbs)
          if (input.repetitionPenalty !== 1) histories[row]!.push(draw.tokenId)
          return draw.tokenId
        })
      }
      inputs.forEach((input, row) => {
        replace(input.slot, planes.map((plane) => {
          const part = (begin: number, count: number): Tensor => ops.reshape(ops.slice(plane, [row, 0, begin, 0], [1, kvHeads, count, headDim]), [kvHeads, count, headDim])
          return input.position === 0 ? part(width, steps) : ops.concat([part(0, input.position), part(width, steps)], 1)
        }))
      })
    })
    const { tokenIds, logProbs } = out
    return topLogProbs === 0 ? { steps, tokenIds, logProbs } : { steps, ...out }
  }

  /** First `position` cached vectors of a slot, padded with zeros to `width`: [1, K, width, h]. */
  function padded({ slot, position }: SlotInput, plane: number, width: number): Tensor {
    const zeros = (count: number): Tensor => filled(ops, [1, kvHeads, count, headDim], float(0))
    if (position === 0) return zeros(width)
    const held = cached.get(slot)?.[plane]
    if (held === undefined || held.shape[1]! < position) throw new CohortError("inference_rejected", `decode: slot ${slot} holds ${held?.shape[1] ?? 0} tokens, position ${position} needs as many`)
    const kept = ops.reshape(ops.slice(held, [0, 0, 0], [kvHeads, position, headDim]), [1, kvHeads, position, headDim])
    return position === width ? kept : ops.concat([kept, zeros(width - position)], 2)
  }

  /** Logits [B, V] of one token per row, and the planes with its keys and values appended. */
  function stepForward(inputs: readonly SlotInput[], last: readonly number[], step: number, width: number, planes: readonly Tensor[]) {
    const rows = inputs.length
    const weights = policy.weights()
    const positions = ints(inputs.map((input) => input.position + step))
    const hiddenColumns = Float32Array.from({ length: rows * (width + step + 1) }, (_, i) => {
      const column = i % (width + step + 1)
      return column >= width || column < inputs[Math.floor(i / (width + step + 1))]!.position ? 0 : -1e9
    })
    const mask = tensor(hiddenColumns, [rows, 1, 1, width + step + 1])
    const grown: Tensor[] = []
    const angles = rotaryRows(ops, rotary, positions)
    let x = embed(ops, weights, ints(last))
    for (let layer = 0; layer < layers; layer++)
      x = decoderLayer(ops, config, weights, layer, x, angles, (_, q, k, v) => {
        const append = (plane: Tensor, row: Tensor): Tensor => ops.concat([plane, ops.reshape(row, [rows, kvHeads, 1, headDim])], 2)
        const keys = append(planes[2 * layer]!, k)
        const values = append(planes[2 * layer + 1]!, v)
        grown.push(keys, values)
        const grouped = ops.reshape(ops.mul(q, float(1 / Math.sqrt(headDim))), [rows, kvHeads, heads / kvHeads, headDim])
        const scores = ops.softmax(ops.add(ops.batchMatMul(grouped, keys, false, true), mask))
        return ops.reshape(ops.batchMatMul(scores, values), [rows, heads * headDim])
      })
    return { logits: vocabulary(ops, config, weights, x), grown }
  }

  function score(tokenIds: Int32Array): Float32Array {
    checkTokens(info, tokenIds, "score")
    const out = new Float32Array(tokenIds.length)
    if (tokenIds.length < 2) return out
    const logits = tidy(() => vocabulary(ops, config, policy.weights(), promptStates(tokenIds, () => {})).dataSync()) as Float32Array
    for (let i = 1; i < tokenIds.length; i++) {
      const row = logits.subarray((i - 1) * vocabSize, i * vocabSize)
      const max = row.reduce((a, b) => Math.max(a, b), -Infinity)
      out[i] = row[tokenIds[i]!]! - max - Math.log(row.reduce((total, value) => total + Math.exp(value - max), 0))
    }
    return out
  }

  return {
    info,
    prefill: async (requests) => prefill(requests),
    decode: async (inputs, steps, topLogProbs) => decode(inputs, steps, topLogProbs),
    score: async (tokenIds) => score(tokenIds),
    loadWeights: async (folder) => loadPolicy(policy, folder, owned),
    async close() {
      for (const planes of cached.values()) dispose([...planes])
      cached.clear()
      dispose([rotary.cosine, rotary.sine])
      if (owned) policy.dispose()
    },
  }
}
