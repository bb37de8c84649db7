// What every route gets: the engine, and the few things of the outside world that answers need.
import type { Engine } from "../engine.ts"

export interface ApiOptions {
  readonly engine: Engine
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Uniform in [0, 1); names requests that name themselves not. */
  readonly random: () => number
  /** Token strings in log-probs are "token_id:N", so that two tokens of one spelling stay apart. Default true. */
  readonly tokensAsIds?: boolean
  /** Most `logprobs` a request may ask for. Default 20. */
  readonly maxLogProbs?: number
  /** Most completions of one prompt. Default 1024. */
  readonly maxCompletions?: number
  /** Largest request body. Default 64 MiB. */
  readonly maxBodyBytes?: number
  /** Wanted as `Authorization: Bearer KEY` on every route but `/health`. */
  readonly apiKey?: string
}

export interface Api {
  readonly engine: Engine
  readonly tokensAsIds: boolean
  readonly maxLogProbs: number
  readonly maxCompletions: number
  readonly maxBodyBytes: number
  readonly apiKey: string | undefined
  readonly startedAtSeconds: number
  /** Requests between arrival and answer. */
  load: number
  nowSeconds(): number
  /** 16 hexadecimal digits. */
  newId(): string
}

/** Version of the vLLM protocol that is spoken (clients choose routes by it), then ours. */
export const protocolVersion = "0.32.0+cohort.0.1.0"
export const fingerprint = "cohort-engine-0.1.0"

export function createApi(options: ApiOptions): Api {
  const nowSeconds = () => Math.floor(options.now() / 1000)
  const digits = () => Math.floor(options.random() * 2 ** 32).toString(16).padStart(8, "0")
  return {
    engine: options.engine,
    tokensAsIds: options.tokensAsIds ?? true,
    maxLogProbs: options.maxLogProbs ?? 20,
    maxCompletions: options.maxCompletions ?? 1024,
    maxBodyBytes: options.maxBodyBytes ?? 64 * 2 ** 20,
    apiKey: options.apiKey,
    startedAtSeconds: nowSeconds(),
    load: 0,
    nowSeconds,
    newId: () => digits() + digits(),
  }
}
