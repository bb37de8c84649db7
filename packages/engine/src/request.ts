// One request to the engine: n completions of one prompt, as they grow and as they ended.
import type { CohortError } from "@cohort/errors"

import type { OutputText } from "./output-text.ts"
import type { Finish, LabelSpan, Sequence, TopTokens } from "./sequence.ts"

export interface EngineRequest {
  readonly promptIds: Int32Array
  readonly n: number
  /** Absent: the context is filled. */
  readonly maxTokens?: number
  readonly minTokens?: number
  readonly temperature: number
  readonly topP: number
  /** 0 is off. */
  readonly topK: number
  readonly minP: number
  readonly repetitionPenalty: number
  /** Child i draws with seed + i, modulo 2^32. Absent: every child's seed is drawn. */
  readonly seed?: number
  readonly stopTokenIds?: readonly number[]
  /** Go on past the model's own end. */
  readonly ignoreEos?: boolean
  readonly stop?: readonly string[]
  readonly includeStop?: boolean
  readonly skipSpecialTokens?: boolean
  /** Most likely tokens wanted beside every drawn one, 0 to `maxTopLogProbs`. */
  readonly topLogProbs?: number
  /** Decode text; implied by `stop`. */
  readonly text?: boolean
  /** Keep the pieces for `deltas()`. */
  readonly stream?: boolean
  /** Name for `abort`. */
  readonly id?: string
  readonly signal?: AbortSignal
}

/** New tokens of completion `index`. The last delta of a completion carries `finish` and `versions`. */
export interface Delta {
  readonly index: number
  readonly tokenIds: readonly number[]
  readonly logProbs: readonly number[]
  readonly topTokens: readonly TopTokens[]
  readonly text: string
  readonly finish: Finish | undefined
  readonly versions: readonly LabelSpan[] | undefined
}

export interface Completion {
  readonly index: number
  readonly tokenIds: readonly number[]
  readonly logProbs: readonly number[]
  readonly topTokens: readonly TopTokens[]
  readonly text: string
  readonly finish: Finish
  readonly versions: readonly LabelSpan[]
}

export interface Submission {
  /** All completions, in order. Rejects with CohortError `inference_failed` when the engine dies and `aborted` when the signal fires. */
  readonly result: Promise<readonly Completion[]>
  /** Pieces as they come; needs `stream: true`; leaving the loop early aborts the request. */
  deltas(): AsyncIterable<Delta>
}

/** A request inside the engine: its children and where their tokens go. */
export interface ActiveRequest {
  readonly id: string | undefined
  readonly startedAtMs: number
  readonly submission: Submission
  readonly sequences: readonly Sequence[]
  /** Publishes tokens of a child from index `from` on; true when that ended the whole request. */
  progress(sequence: Sequence, from: number): boolean
  fail(error: CohortError): void
}

export interface ActiveRequestOptions {
  readonly id: string | undefined
  readonly startedAtMs: number
  readonly sequences: readonly Sequence[]
  readonly texts: readonly (OutputText | undefined)[]
  readonly stream: boolean
  /** Called when the reader of `deltas()` leaves before the end. */
  readonly onLeave: () => void
}

export function createActiveRequest(options: ActiveRequestOptions): ActiveRequest {
  const { sequences, texts } = options
  const { promise, resolve, reject } = Promise.withResolvers<readonly Completion[]>()
  // A reader of deltas() never looks at the promise; its rejection must not count as unhandled.
  promise.catch(() => undefined)
  const indexOf = new Map(sequences.map((sequence, index) => [sequence, index]))
  const queue: Delta[] = []
  let wake: (() => void) | undefined
  let failure: CohortError | undefined
  let left = sequences.length

  function completion(sequence: Sequence, index: number): Completion {
    return {
      index,
      tokenIds: sequence.outputIds,
      logProbs: sequence.logProbs,
      topTokens: sequence.topTokens,
      text: texts[index]?.text ?? "",
      finish: sequence.finish!,
      versions: sequence.versions,
    }
  }

  async function* deltas(): AsyncGenerator<Delta> {
    try {
      for (;;) {
        const delta = queue.shift()
        if (delta !== undefined) yield delta
        else if (failure !== undefined) throw failure
        else if (left === 0) return
        else await new Promise<void>((wakeUp) => (wake = wakeUp))
      }
    } finally {
      if (left > 0 && failure === undefined) options.onLeave()
    }
  }

  return {
    id: options.id,
    startedAtMs: options.startedAtMs,
    sequences,
    submission: { result: promise, deltas },
    progress(sequence, from) {
      const index = indexOf.get(sequence)!
      const ended = sequence.finish !== undefined
      if (options.stream)
        queue.push({
          index,
          tokenIds: sequence.outputIds.slice(from),
          logProbs: sequence.logProbs.slice(from),
          topTokens: sequence.topTokens.slice(from),
          text: texts[index]?.take(ended) ?? "",
          finish: sequence.finish,
          versions: ended ? sequence.versions : undefined,
        })
      if (ended) left--
      if (left === 0) resolve(sequences.map(completion))
      wake?.()
      return left === 0
    },
    fail(error) {
      failure = error
      reject(error)
      wake?.()
    },
  }
}
