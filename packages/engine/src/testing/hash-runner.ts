// A small deterministic language model in plain TypeScript, for tests: the logits are a hash of everything that is cached
// (tokens, their positions, the weights that computed them), so a cache mistake shows as different tokens.
import type { ModelRunner, RunnerInfo, SlotInput } from "../runner.ts"
import { drawToken, type Drawn } from "./draw.ts"

export interface HashRunnerOptions {
  readonly slots?: number
  readonly maxModelLength?: number
  readonly vocabSize?: number
  /** Only ids below this are ever drawn; makes large vocabularies cheap. Default: all. */
  readonly drawnIds?: number
  readonly chunkSizes?: readonly number[]
  /** Identity of the first weights; `loadWeights(folder)` sets it to the hash of the folder's name. */
  readonly weights?: number
  /** Awaited before every call; a test waits, throws or counts here. */
  readonly beforeCall?: (call: "prefill" | "decode" | "score" | "loadWeights") => Promise<void> | void
}

export interface HashRunner extends ModelRunner {
  readonly calls: Record<"prefill" | "decode" | "score" | "loadWeights", number>
  /** Slots filled by each prefill request so far. */
  readonly prefills: { readonly tokens: number; readonly slots: number }[]
}

/** 32-bit mix of two integers (the finalizer of MurmurHash3 over their combination). */
export function mix(left: number, right: number): number {
  let hash = Math.imul(left ^ Math.imul(right | 0, 0xcc9e2d51), 0x1b873593)
  hash ^= hash >>> 16
  hash = Math.imul(hash, 0x85ebca6b)
  hash ^= hash >>> 13
  hash = Math.imul(hash, 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** Weights identity of a folder, as `loadWeights` computes it. */
export function weightsOf(folder: string): number {
  return [...folder].reduce((hash, character) => mix(hash, character.codePointAt(0)!), 7)
}

/**
 * @example
 * const runner = createHashRunner({ slots: 4, chunkSizes: [1, 4, 8] })
 */
export function createHashRunner(options: HashRunnerOptions = {}): HashRunner {
  const info: RunnerInfo = {
    slots: options.slots ?? 4,
    maxModelLength: options.maxModelLength ?? 64,
    vocabSize: options.vocabSize ?? 32,
    chunkSizes: options.chunkSizes ?? [1, 2, 4, 8],
    parameters: 0,
    dtype: "f32",
    backend: "hash",
  }
  const drawnIds = Math.min(options.drawnIds ?? info.vocabSize, info.vocabSize)
  let weights = options.weights ?? 1
  // Entry p of a slot is the state after token p; a real cache likewise keeps stale entries past its end.
  const caches = Array.from({ length: info.slots }, () => new Uint32Array(info.maxModelLength))
  const calls = { prefill: 0, decode: 0, score: 0, loadWeights: 0 }
  const prefills: { tokens: number; slots: number }[] = []

  function store(slot: number, position: number, tokenId: number): number {
    const cache = caches[slot]
    if (cache === undefined || position >= info.maxModelLength) throw new RangeError(`slot ${slot} position ${position} is outside the cache`)
    if (tokenId < 0 || tokenId >= info.vocabSize) throw new RangeError(`token ${tokenId} is outside the vocabulary of ${info.vocabSize}`)
    const state = mix(mix(position === 0 ? 0 : cache[position - 1]!, tokenId), mix(position, weights))
    cache[position] = state
    return state
  }

  async function begin(call: keyof typeof calls): Promise<void> {
    calls[call]++
    await options.beforeCall?.(call)
  }

  return {
    info,
    calls,
    prefills,
    async prefill(requests) {
      await begin("prefill")
      for (const { tokenIds, slots } of requests) {
        prefills.push({ tokens: tokenIds.length, slots: slots.length })
        for (const slot of slots) tokenIds.forEach((tokenId, position) => store(slot, position, tokenId))
      }
    },
    async decode(inputs, steps, topCount) {
      await begin("decode")
      if (!info.chunkSizes.includes(steps)) throw new RangeError(`${steps} is not a compiled chunk size`)
      const cells = inputs.length * steps
      const tokenIds = new Int32Array(cells)
      const logProbs = new Float32Array(cells)
      const topTokenIds = new Int32Array(cells * topCount)
      const topLogProbs = new Float32Array(cells * topCount)
      inputs.forEach((input, row) => {
        let lastToken = input.lastToken
        // The penalty sees the tokens of this very chunk too.
        const history = [...input.history]
        for (let step = 0; step < steps; step++) {
          const drawn = next({ ...input, history: Int32Array.from(history) }, lastToken, input.position + step, topCount)
          if (input.repetitionPenalty !== 1) history.push(drawn.tokenId)
          const cell = row * steps + step
          tokenIds[cell] = drawn.tokenId
          logProbs[cell] = drawn.logProb
          topTokenIds.set(drawn.topTokenIds, cell * topCount)
          topLogProbs.set(drawn.topLogProbs, cell * topCount)
          lastToken = drawn.tokenId
        }
      })
      return topCount === 0 ? { steps, tokenIds, logProbs } : { steps, tokenIds, logProbs, topTokenIds, topLogProbs }
    },
    async score(tokenIds) {
      await begin("score")
      const logProbs = new Float32Array(tokenIds.length)
      let state = 0
      tokenIds.forEach((tokenId, position) => {
        if (position > 0) logProbs[position] = Math.log(softmaxOf(state, tokenId, drawnIds))
        state = mix(mix(position === 0 ? 0 : state, tokenId), mix(position, weights))
      })
      return logProbs
    },
    async loadWeights(folder) {
      await begin("loadWeights")
      weights = weightsOf(folder)
    },
    async close() {},
  }

  function next(input: SlotInput, lastToken: number, position: number, topCount: number): Drawn {
    const state = store(input.slot, position, lastToken)
    const logits = Float64Array.from({ length: drawnIds }, (_, id) => logitOf(state, id))
    return drawToken(logits, input, (id) => (mix(mix(input.seed, position), id) + 0.5) / 2 ** 32, topCount)
  }
}

function logitOf(state: number, tokenId: number): number {
  return (mix(state, tokenId) / 2 ** 32) * 4
}

function softmaxOf(state: number, tokenId: number, drawnIds: number): number {
  if (tokenId >= drawnIds) return 0
  let sum = 0
  for (let id = 0; id < drawnIds; id++) sum += Math.exp(logitOf(state, id))
  return Math.exp(logitOf(state, tokenId)) / sum
}
