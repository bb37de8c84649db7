// The contract between rollouts and whatever generates: token ids in, token ids with log-probs and policy versions out.

/** How tokens are drawn. Every field is sent; a server's own defaults never apply. */
export interface Sampling {
  readonly maxTokens: number
  /** 0 is greedy. */
  readonly temperature: number
  readonly topP: number
  /** 0 is off. */
  readonly topK: number
  readonly minP: number
  readonly repetitionPenalty: number
  readonly stopTokenIds: readonly number[]
  /** Child i of `n` uses seed + i. Absent: the server draws one. */
  readonly seed?: number
}

/** [index of the first token, policy version that generated from there on]; first entry starts at 0, ascending. */
export type VersionSpan = readonly [fromToken: number, version: number]

export interface Generation {
  /** The stop token is included when one was produced. */
  readonly tokenIds: Int32Array
  /** Natural log of the probability under the distribution the token was drawn from; same length as `tokenIds`. */
  readonly logProbs: Float32Array
  readonly finishReason: "stop" | "length" | "abort"
  readonly versions: readonly VersionSpan[]
}

export interface GenerateRequest {
  readonly promptIds: Int32Array
  /** Completions wanted of this prompt. */
  readonly n: number
  readonly sampling: Sampling
  readonly signal: AbortSignal
  readonly cacheSalt?: string
}

export type PauseMode = "keep" | "wait" | "abort"

export interface ServerHealth {
  readonly ready: boolean
  readonly running: number
  readonly waiting: number
  /** Share of the key-value cache in use, 0 to 1. */
  readonly kvUsage: number
  readonly maxModelLength: number
  /** Version label of the weights that are loaded. */
  readonly version: number
}

export interface ServerWeights {
  readonly path: string
  readonly version: number
  /**
   * The folder holds an adapter in PEFT's layout, to be served under this name beside the weights: new requests use it, those that run go on with theirs.
   * A name stands for one content for ever.
   */
  readonly adapter?: string
}

/** One inference server, or several behind one face. Methods throw CohortError (`inference_*`, `timeout`, `aborted`). */
export interface InferenceServer {
  /** Shown in messages and reports. */
  readonly name?: string
  generate(request: GenerateRequest): Promise<Generation[]>
  pause(mode: PauseMode): Promise<void>
  resume(): Promise<void>
  health(): Promise<ServerHealth>
  /** Loads the weights of a folder in Hugging Face layout, for which the server must be paused; or an adapter, for which it need not. */
  loadWeights(weights: ServerWeights): Promise<void>
  /** Forgets an adapter; new requests run on the weights without it where it was in use. False while requests run on it: ask again later. Absent where there are none. */
  unloadAdapter?(name: string): Promise<boolean>
  close(): Promise<void>
}
