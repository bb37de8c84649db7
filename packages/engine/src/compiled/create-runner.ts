// The model runner on libtensorflow: slots with a resident cache, programs compiled per shape as they are first needed.
import { totalmem } from "node:os"
import { tensor, tidy } from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import type { Policy } from "@cohort/model"
import { type CompiledFunction, DType, inLanes, type TensorRuntime } from "@cohort/tensor"
import type { ChunkOutput, ModelRunner, RunnerInfo, SlotInput } from "../runner.ts"
import { ladder, packPrompts, rungFor } from "./buckets.ts"
import { createSlotCache } from "./cache.ts"
import { checkInputs, checkPrompts, checkSizes, checkTokens, clampTop } from "./checks.ts"
import type { DecodeShape } from "./decode-shape.ts"
import { chooseForm, compileDecode, type DecodeForm, formBySize } from "./form.ts"
import { createRunnerModel } from "./model.ts"
import { packedPrograms } from "./packed.ts"
import { compileHidden, compilePrefill, compileTargets } from "./prefill.ts"
import type { SamplingVariant } from "./sample.ts"
import { createShelf, type Shelf } from "./shelf.ts"
import { rowArrays, variantOf } from "./rows.ts"
import { loadPolicy, openPolicy } from "./weights.ts"

export interface CompiledRunnerOptions {
  readonly runtime: TensorRuntime
  /** A Hugging Face folder whose weights become resident, or a policy whose resident weights are shared. */
  readonly model: { readonly folder: string } | { readonly policy: Policy }
  /** Sequences that are cached at once. */
  readonly slots: number
  /** Most tokens of a sequence; at most the model's own limit. */
  readonly maxModelLength: number
  /** Of matrix products and of the cache. */
  readonly dtype?: "f32" | "bf16"
  /** Longest chunk in tokens. */
  readonly maxChunk?: number
  /** Parts of a batch that are computed side by side; the runtime was opened with as many `lanes`. Default 1. */
  readonly lanes?: number
  /** How decoding is compiled; see decode-loop.ts and decode-mixed.ts. Default: by size, or by a measurement. */
  readonly form?: DecodeForm
  /** JSON file that remembers which form is faster on this machine; absent: size decides. */
  readonly formMemory?: string
}

/** Padded tokens of one prefill call, and of one write into slots: bounds its memory. */
const prefillTokens = 4096
/** Most prompts of a call: one of a larger model is bound by its products already. */
const prefillRows = { loop: 32, mixed: 8 }
/** Cached positions of the shortest program; above, powers of two from 64 on. */
const shortestLength = 16
/** Steps of the program for short chunks: each column is attended by all steps, needed or not. */
const shortChunk = 4
/** Rows of one product with the vocabulary when scoring. */
const scoredRows = 256

/**
 * Opens a runner. The runtime stays the caller's to close.
 *
 * @throws CohortError `model_invalid` for a folder that is no model, `config_invalid` for a context or slot count below 1
 * @example
 * const runner = createCompiledRunner({ runtime, model: { folder: "models/tiny" }, slots: 64, maxModelLength: 512 })
 */
export function createCompiledRunner(options: CompiledRunnerOptions): ModelRunner {
  const { runtime, slots, maxModelLength } = options
  const { raw } = runtime
  if (raw === undefined) throw new CohortError("runtime_unavailable", "the compiled runner needs libtensorflow")
  checkSizes(options)
  const owned = "folder" in options.model
  const type = options.dtype ?? "f32"
  const policy = "policy" in options.model ? options.model.policy : openPolicy(runtime, options.model.folder, type)
  const { config } = policy
  const columns = Math.min(options.maxChunk ?? 32, maxModelLength)
  const model = createRunnerModel(runtime, raw, policy, type === "bf16" ? DType.bfloat16 : DType.float32, maxModelLength + columns)
  const cache = createSlotCache(raw, config, slots, maxModelLength, model.dtype)
  const lanes = runtime.lanes === undefined ? 1 : Math.min(options.lanes ?? 1, slots)
  const rowRungs = ladder(1, Math.ceil(slots / lanes))
  const lengthRungs = [...new Set([Math.min(shortestLength, maxModelLength), ...ladder(64, maxModelLength)])]
  const promptRungs = ladder(8, maxModelLength)
  // Weights of the trainer's change under a program, so it must read them each time.
  const copies = owned && (options.form ?? formBySize(policy.parameters)) !== "loop" ? packedPrograms(model, totalmem()) : 0
  const usual = { rows: rungFor(rowRungs, 16), length: rungFor(lengthRungs, 64), columns, variant: { truncates: false, penalizes: false, top: 0 } }
  const form = options.form ?? chooseForm(model, usual, { packed: copies > 0, lanes, memory: options.formMemory })
  const columnRungs = form === "loop" ? [...new Set([Math.min(shortChunk, columns), columns])] : [columns]
  const promptRows = ladder(1, prefillRows[form])
  const info: RunnerInfo = {
    slots,
    maxModelLength,
    vocabSize: config.vocabSize,
    chunkSizes: ladder(1, columns),
    parameters: policy.parameters,
    dtype: type,
    backend: `${runtime.info.backend}-${runtime.info.device}`,
  }
  const hiddenProgram = compileHidden(model, "xla")
  const targetProgram = compileTargets(model, "xla")
  const now = (): number => performance.now()
  const prefills = createShelf<PromptShape, CompiledFunction>({
    compile: () => compilePrefill(model, form === "mixed" ? "graph" : "xla"),
    keyOf: (shape) => `${shape.rows}x${shape.length}`,
    covers: (larger, smaller) => larger.rows >= smaller.rows && larger.length >= smaller.length,
    costOf: (shape) => shape.rows * shape.length * (callCost + shape.length),
    now,
  })
  const packable = form === "mixed" ? copies : 0
  const decoders: Shelf<DecodeShape, CompiledFunction> = createShelf({
    compile: (shape) => compileDecode(model, form, shape, decoders.programs.length < packable),
    keyOf: ({ rows, length, columns, variant }) => [rows, length, columns, variant.truncates, variant.penalizes, variant.top].join(),
    covers: (larger, smaller) => larger.rows >= smaller.rows && larger.length >= smaller.length && larger.columns >= smaller.columns && covers(larger.variant, smaller.variant),
    costOf: decodeCost,
    now,
  })

  /** Contiguous parts of equal size, one for each lane. */
  function parted<T>(all: readonly T[]): (readonly T[])[] {
    const size = Math.ceil(all.length / Math.min(lanes, all.length))
    return Array.from({ length: Math.ceil(all.length / size) }, (_, i) => all.slice(i * size, (i + 1) * size))
  }

  function decode(inputs: readonly SlotInput[], steps: number, topLogProbs: number): ChunkOutput {
    checkInputs(info, inputs, steps)
    const parts = parted(inputs)
    const rows = rungFor(rowRungs, parts[0]!.length)
    const length = rungFor(lengthRungs, Math.max(...inputs.map((input) => input.position)))
    const variant = variantOf(inputs, clampTop(topLogProbs, config.vocabSize))
    const wanted = { rows, length, columns: rungFor(columnRungs, steps), variant }
    const [outputs, ran] = decoders.run(wanted, (program, shape) => {
      const values = tidy(() => {
        const results = inLanes(runtime, parts, (part) => {
          const members = Array.from({ length: shape.rows }, (_, row) => (part[row] ?? part[0]!).slot)
          const arrays = rowArrays(part, shape.rows, config.vocabSize, shape.variant).map(({ values, shape, type }) => tensor(values, shape, type))
          return program(tensor(Int32Array.of(steps), [], "int32"), cache.gather(members, shape.length), ...arrays)
        })
        return results.map((outputs, i) => {
          const part = parts[i]!
          const fresh = outputs[2]!
          const kept = raw!.slice(fresh, [0, 0, 0, 0, 0], [fresh.shape[0]!, part.length, config.kvHeads, steps, config.headDim])
          cache.scatter(part.map((input) => input.slot), part.map((input) => input.position), steps, kept)
          return outputs.filter((_, k) => k !== 2).map((output) => output.dataSync() as Int32Array | Float32Array)
        })
      })
      return [values, shape] as const
    })
    /** Of output `which` of all parts the rows and steps that were asked for. */
    const cut = <T extends Int32Array | Float32Array>(which: number, out: T, width: number): T => {
      let begin = 0
      parts.forEach((part, i) => {
        const all = outputs[i]![which]!
        for (let row = 0; row < part.length; row++, begin += steps * width) out.set(all.subarray(row * ran.columns * width, (row * ran.columns + steps) * width), begin)
      })
      return out
    }
    const cells = inputs.length * steps
    const chunk = { steps, tokenIds: cut(0, new Int32Array(cells), 1), logProbs: cut(1, new Float32Array(cells), 1) }
    const { top } = ran.variant
    if (topLogProbs === 0 || top === 0) return chunk
    return { ...chunk, ...widen(cut(2, new Int32Array(cells * top), top), cut(3, new Float32Array(cells * top), top), top, topLogProbs) }
  }

  function prefill(requests: Parameters<ModelRunner["prefill"]>[0]): void {
    checkPrompts(info, requests)
    const filled = requests.filter(({ tokenIds, slots: targets }) => tokenIds.length > 0 && targets.length > 0)
    for (const group of packPrompts(filled, (request) => request.tokenIds.length, promptRungs, promptRows.at(-1)! * lanes, prefillTokens * lanes)) {
      const parts = parted(group.requests)
      prefills.run({ rows: rungFor(promptRows, parts[0]!.length), length: group.length }, (program, { rows, length }) =>
        tidy(() => {
          const results = inLanes(runtime, parts, (part) => {
            const ids = new Int32Array(rows * length)
            part.forEach(({ tokenIds }, row) => ids.set(tokenIds, row * length))
            return program(tensor(ids, [rows, length], "int32"))[0]!
          })
          results.forEach((planes, i) => {
            const targets = parts[i]!.flatMap((request, row) => request.slots.map((slot) => ({ slot, row })))
            // What lies past a prompt's own length is written too and never read: its slot's first tokens go there.
            const count = Math.max(...parts[i]!.map((request) => request.tokenIds.length))
            const cut = raw!.slice(planes, [0, 0, 0, 0, 0], [planes.shape[0]!, rows, config.kvHeads, count, config.headDim])
            const most = Math.max(1, Math.floor(prefillTokens / count))
            for (let from = 0; from < targets.length; from += most) {
              const some = targets.slice(from, from + most)
              tidy(() => cache.scatter(some.map(({ slot }) => slot), some.map(() => 0), count, raw!.gather(cut, tensor(Int32Array.from(some, ({ row }) => row), [some.length], "int32"), 1)))
            }
          })
        }))
    }
  }

  function score(tokenIds: Int32Array): Float32Array {
    checkTokens(info, tokenIds, "score")
    const out = new Float32Array(tokenIds.length)
    if (tokenIds.length < 2) return out
    const length = rungFor(promptRungs, tokenIds.length)
    const ids = new Int32Array(length)
    ids.set(tokenIds)
    const targets = new Int32Array(length)
    targets.set(tokenIds.subarray(1))
    tidy(() => {
      const [hidden] = hiddenProgram(tensor(ids, [1, length], "int32"))
      const rows = Math.min(scoredRows, length)
      for (let begin = 0; begin < tokenIds.length - 1; begin += rows) {
        // The last window begins earlier rather than being shorter: one shape is compiled.
        const from = Math.min(begin, length - rows)
        const part = tidy(() => targetProgram(raw!.slice(hidden!, [from, 0], [rows, config.hiddenSize]), tensor(targets.subarray(from, from + rows), [rows], "int32"))[0]!.dataSync())
        out.set(part.subarray(0, Math.min(rows, tokenIds.length - 1 - from)), from + 1)
      }
    })
    return out
  }

  return {
    info,
    prefill: async (requests) => prefill(requests),
    decode: async (inputs, steps, topLogProbs) => decode(inputs, steps, topLogProbs),
    score: async (tokenIds) => score(tokenIds),
    async loadWeights(folder) {
      loadPolicy(policy, folder, owned)
      if (packable > 0) for (const program of decoders.programs) program.forgetKernels()
    },
    async close() {
      for (const program of [hiddenProgram, targetProgram, ...prefills.programs, ...decoders.programs]) program.dispose()
      cache.dispose()
      model.rotary.cosine.dispose()
      model.rotary.sine.dispose()
      if (owned) policy.dispose()
    },
  }
}

/** A row's fixed work, in units of one attended position. */
const callCost = 256

function decodeCost({ rows, length, columns, variant }: DecodeShape): number {
  const extras = (variant.truncates ? 1 : 0) + (variant.penalizes ? 0.2 : 0) + (variant.top > 0 ? 0.3 : 0)
  return (rows + 2) * (callCost + length + columns) * (1 + extras)
}

/** Settings that are off run on a program that has them, too. */
function covers(larger: SamplingVariant, smaller: SamplingVariant): boolean {
  return (larger.truncates || !smaller.truncates) && (larger.penalizes || !smaller.penalizes) && larger.top >= smaller.top
}

interface PromptShape {
  readonly rows: number
  readonly length: number
}

/** Pads the top lists of a vocabulary that is smaller than what was asked for, and turns excluded tokens into minus infinity. */
function widen(ids: Int32Array, values: Float32Array, have: number, wanted: number): { topTokenIds: Int32Array; topLogProbs: Float32Array } {
  const cells = ids.length / have
  const topTokenIds = new Int32Array(cells * wanted)
  const topLogProbs = new Float32Array(cells * wanted).fill(-Infinity)
  for (let cell = 0; cell < cells; cell++)
    for (let i = 0; i < Math.min(have, wanted); i++) {
      topTokenIds[cell * wanted + i] = ids[cell * have + i]!
      if (values[cell * have + i]! > -1e30) topLogProbs[cell * wanted + i] = values[cell * have + i]!
    }
  return { topTokenIds, topLogProbs }
}
