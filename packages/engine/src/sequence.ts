// One completion being generated: what was asked, what was drawn so far and where its cache sits.

/** A stop token's meaning: `null` is the model's own end, a number the id that the caller named. */
export type StopTokens = ReadonlyMap<number, number | null>

/** What one completion asks for. Token counts are tokens; `seed` is a 32-bit integer. */
export interface SequenceSpec {
  readonly promptIds: Int32Array
  readonly maxTokens: number
  /** Stops (ids and strings) are not looked at before this many tokens. The draw itself is not changed. */
  readonly minTokens: number
  readonly temperature: number
  readonly topP: number
  readonly topK: number
  readonly minP: number
  readonly repetitionPenalty: number
  readonly seed: number
  readonly stopTokens: StopTokens
  /** Most likely tokens wanted beside every drawn one. */
  readonly topLogProbs: number
  /**
   * Called once for every kept token, in order; a returned string ends the sequence there with that stop reason.
   * `stopped`: the token is a stop token.
   */
  readonly watch?: (tokenId: number, stopped: boolean) => string | undefined
}

export interface Finish {
  readonly reason: "stop" | "length" | "abort"
  /** The stop string or stop token id that matched; null for the model's own end, for length and abort. */
  readonly stopReason: string | number | null
}

/** Most likely tokens of one step, best first. */
export interface TopTokens {
  readonly tokenIds: readonly number[]
  readonly logProbs: readonly number[]
}

/** [index of the first token, label of the weights that generated from there on]. */
export type LabelSpan = readonly [fromToken: number, label: string]

/** Mutable on purpose: the scheduler is its only writer. */
export interface Sequence {
  readonly id: number
  readonly spec: SequenceSpec
  readonly outputIds: number[]
  readonly logProbs: number[]
  /** One entry per output token when `topLogProbs` was asked for. */
  readonly topTokens: TopTokens[]
  readonly versions: LabelSpan[]
  /** Slot whose cache holds every token but the last; undefined while waiting and after the end. */
  slot: number | undefined
  /** Was admitted at least once, so a preempted sequence is told from a new one. */
  started: boolean
  finish: Finish | undefined
}

export function createSequence(id: number, spec: SequenceSpec): Sequence {
  return {
    id,
    spec,
    outputIds: [],
    logProbs: [],
    topTokens: [],
    versions: [],
    slot: undefined,
    started: false,
    finish: undefined,
  }
}

/** Prompt and output, without the last `drop` tokens. */
export function tokensOf(sequence: Sequence, drop = 0): Int32Array {
  const { promptIds } = sequence.spec
  const all = new Int32Array(promptIds.length + sequence.outputIds.length)
  all.set(promptIds)
  all.set(sequence.outputIds, promptIds.length)
  return drop === 0 ? all : all.subarray(0, all.length - drop)
}

/** Last token of prompt and output: the one that is not cached yet. */
export function lastTokenOf(sequence: Sequence): number {
  return sequence.outputIds.at(-1) ?? sequence.spec.promptIds.at(-1)!
}

/** Output tokens that the sequence may hold at most, in a context of `contextLength` tokens. */
export function outputLimit(spec: SequenceSpec, contextLength: number): number {
  return Math.min(spec.maxTokens, contextLength - spec.promptIds.length)
}
