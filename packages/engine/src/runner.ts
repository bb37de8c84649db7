// The compiled side of the engine: a fixed number of slots, each holding one sequence's key-value cache.
// The scheduler decides which sequence sits where; the runner only computes.

/** What one active slot needs for the next chunk. */
export interface SlotInput {
  readonly slot: number
  /** Last token of the sequence so far; its keys and values are not in the cache yet. */
  readonly lastToken: number
  /** Position of `lastToken`, which is the number of cached tokens of the slot. */
  readonly position: number
  /** 32-bit seed of the sequence; with the position it alone decides each draw. */
  readonly seed: number
  readonly temperature: number
  readonly topP: number
  readonly topK: number
  readonly minP: number
  readonly repetitionPenalty: number
  /** Prompt and output so far; read only when `repetitionPenalty` is not 1. */
  readonly history: Int32Array
}

/** Tokens of one chunk, row i belongs to input i; arrays are [inputs, steps] row-major. */
export interface ChunkOutput {
  readonly steps: number
  readonly tokenIds: Int32Array
  /** Log-prob under the distribution really sampled from (after temperature, penalties and truncation). */
  readonly logProbs: Float32Array
  /** The `topLogProbs` most likely tokens of each step, [inputs, steps, k], when asked for. */
  readonly topTokenIds?: Int32Array
  readonly topLogProbs?: Float32Array
}

export interface RunnerInfo {
  readonly slots: number
  readonly maxModelLength: number
  readonly vocabSize: number
  /** Chunk lengths that are compiled, ascending. */
  readonly chunkSizes: readonly number[]
  readonly parameters: number
  /** Of matrix products and the cache. */
  readonly dtype: "f32" | "bf16"
  /** Which tensor backend computes. */
  readonly backend: string
}

export interface ModelRunner {
  readonly info: RunnerInfo
  /**
   * Computes keys and values of `tokenIds` (positions 0..length-1) and stores them in every slot of `slots`: completions of one
   * prompt share one prefill. Callers leave out the last token of the sequence: `decode` feeds it.
   */
  prefill(requests: readonly { readonly tokenIds: Int32Array; readonly slots: readonly number[] }[]): Promise<void>
  /** Generates `steps` (one of `chunkSizes`) tokens for every given slot. Rows past a stop token are the caller's to cut. */
  decode(inputs: readonly SlotInput[], steps: number, topLogProbs: number): Promise<ChunkOutput>
  /** Log-probs of every token given its prefix (entry 0 is 0) at temperature 1: for `prompt_logprobs`. */
  score(tokenIds: Int32Array): Promise<Float32Array>
  /** Loads the safetensors of a folder into the resident weights. Caches keep their content: the caller recomputes or not. */
  loadWeights(folder: string): Promise<void>
  close(): Promise<void>
}
