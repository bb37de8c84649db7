// An inference server under a virtual clock: tokens take time, weights can change in the middle of a completion, requests can fail.
import { CohortError } from "@cohort/errors"
import type { GenerateRequest, Generation, InferenceServer, VersionSpan } from "@cohort/inference"
import type { Clock } from "../protocol.ts"
import { type Random, seededRandom } from "../random.ts"

export interface Completion {
  readonly tokenIds: readonly number[]
  readonly finishReason?: "stop" | "length"
}

export interface SimulatedServerOptions {
  readonly clock: Clock
  readonly seed: number
  readonly version?: number
  readonly maxModelLength?: number
  /** Time per generated token. */
  readonly tokenMs?: number
  /** Completion of child `index` of a request: its ids (the stop token last when it stopped). Default: 1 to 8 random letters and the stop token. */
  readonly complete?: (request: GenerateRequest, index: number, random: Random) => Completion
  /** Throws, hangs or delays a request before it generates; `count` numbers requests from 0. */
  readonly before?: (request: GenerateRequest, count: number) => void | Promise<void>
  /** Changes what is returned, to play a broken server. */
  readonly after?: (generations: Generation[], count: number) => Generation[]
}

export interface SimulatedServer extends InferenceServer {
  setVersion(version: number): void
  readonly requests: readonly GenerateRequest[]
  /** Requests that run now. */
  readonly running: number
}

/** Stop token of the simulated server and of the plain tokenizer. */
export const stopTokenId = 0

export function createSimulatedServer(options: SimulatedServerOptions): SimulatedServer {
  const { clock, seed, tokenMs = 10, maxModelLength = 4096 } = options
  const requests: GenerateRequest[] = []
  let version = options.version ?? 0
  let running = 0
  let paused = Promise.withResolvers<void>()
  paused.resolve()

  const generateOne = async (request: GenerateRequest, index: number, random: Random): Promise<Generation> => {
    const { tokenIds, finishReason = "stop" } = (options.complete ?? randomWord)(request, index, random)
    const limit = Math.min(tokenIds.length, request.sampling.maxTokens)
    const versions: VersionSpan[] = []
    for (let token = 0; token < limit; token++) {
      await paused.promise
      if (versions.at(-1)?.[1] !== version) versions.push([token, version])
      await clock.sleep(tokenMs, request.signal)
    }
    return {
      tokenIds: Int32Array.from(tokenIds.slice(0, limit)),
      logProbs: Float32Array.from({ length: limit }, () => -0.1 - random()),
      finishReason: limit < tokenIds.length ? "length" : finishReason,
      versions: versions.length === 0 ? [[0, version]] : versions,
    }
  }

  return {
    requests,
    get running() {
      return running
    },
    setVersion(next) {
      version = next
    },
    async generate(request) {
      const count = requests.push(request) - 1
      running++
      try {
        request.signal.throwIfAborted()
        await options.before?.(request, count)
        const children = Array.from({ length: request.n }, (_, index) => generateOne(request, index, seededRandom(seed + count * 1009 + index)))
        const generations = await Promise.all(children)
        return options.after?.(generations, count) ?? generations
      } finally {
        running--
      }
    },
    async pause() {
      paused = Promise.withResolvers<void>()
    },
    async resume() {
      paused.resolve()
    },
    async health() {
      return { ready: true, running, waiting: 0, kvUsage: 0, maxModelLength, version }
    },
    async loadWeights(weights) {
      if (!Number.isInteger(weights.version)) throw new CohortError("inference_rejected", `version ${weights.version}`)
      version = weights.version
    },
    async close() {
      paused.resolve()
    },
  }
}

function randomWord(_request: GenerateRequest, _index: number, random: Random): Completion {
  const letters = Array.from({ length: 1 + Math.floor(random() * 8) }, () => 97 + Math.floor(random() * 26))
  return { tokenIds: [...letters, stopTokenId] }
}
