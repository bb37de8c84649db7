// Lays samples out as the rectangular arrays that a compiled step of fixed shape takes.
import { CohortError } from "@cohort/errors"
import { checkSample } from "./check.ts"
import type { BatchShape } from "./ladder.ts"
import { inputTokens, type MicroBatch, type Sample } from "./sample.ts"

/**
 * One sample per row without its last token, padded on the right with `padId`, then rows of padding up to `shape.rows`. Positions count from 0 and
 * are 0 in padding; padding has attention mask and loss mask 0, version -1. `sampleIds[i]` is row i; padding rows have none.
 *
 * @throws CohortError `internal` when a sample is malformed or does not fit the shape, `numeric` for a non-finite number in it.
 * @example
 * const batch = collate(planned.samples, planned.shape)
 */
export function collate(samples: readonly Sample[], shape: BatchShape, options: CollateOptions = {}): MicroBatch {
  const { rows, length } = shape
  if (samples.length > rows) throw new CohortError("internal", `${samples.length} samples for ${rows} rows`)
  const batch = emptyBatch(rows * length, options)
  let trainedTokens = 0
  let forwardedTokens = 0
  for (const [row, sample] of samples.entries()) {
    checkSample(sample)
    const inputs = inputTokens(sample)
    if (inputs > length) throw new CohortError("internal", `sample ${sample.id} has ${inputs} tokens to forward for a row of ${length}`)
    const start = row * length
    batch.tokenIds.set(sample.tokenIds.subarray(0, inputs), start)
    batch.attentionMask.fill(1, start, start + inputs)
    for (let index = 0; index < inputs; index++) batch.positions[start + index] = index
    trainedTokens += placePredictions(batch, sample, 1, start, options)
    forwardedTokens += inputs
  }
  return { rows, length, ...batch, sampleIds: samples.map(({ id }) => id), trainedTokens, forwardedTokens }
}

/** Writes the predictions of the sample's tokens at index `from` and after to the places at `start` and after; returns how many of them are trained. */
export function placePredictions(batch: EmptyBatch, sample: Sample, from: number, start: number, options: CollateOptions): number {
  const end = start + sample.tokenIds.length - from
  let trained = 0
  batch.targets.set(sample.tokenIds.subarray(from), start)
  batch.lossMask.set(sample.lossMask.subarray(from), start)
  batch.advantages.fill(sample.advantage, start, end)
  batch.weights.fill(sample.weight, start, end)
  batch.ages?.fill(ageOf(sample, options), start, end)
  for (let at = start, index = from; at < end; at++, index++) {
    if (sample.lossMask[index] === 0) continue
    batch.behaviorLogProbs[at] = sample.behaviorLogProbs[index]!
    batch.versions[at] = sample.versions[index]!
    trained++
  }
  return trained
}

export interface CollateOptions {
  /** Token of padding; 0 when absent. */
  readonly padId?: number
  /** Policy version being trained: with it the batch says how old its tokens are. */
  readonly version?: number | undefined
}

export type EmptyBatch = ReturnType<typeof emptyBatch>

/** Arrays of padding for `size` tokens and predictions. */
export function emptyBatch(size: number, { padId = 0, version }: CollateOptions) {
  return {
    tokenIds: new Int32Array(size).fill(padId),
    attentionMask: new Uint8Array(size),
    positions: new Int32Array(size),
    targets: new Int32Array(size),
    lossMask: new Uint8Array(size),
    behaviorLogProbs: new Float32Array(size),
    advantages: new Float32Array(size),
    weights: new Float32Array(size),
    versions: new Int32Array(size).fill(-1),
    ...(version === undefined ? {} : { ages: new Int32Array(size).fill(-1) }),
  } as const satisfies Partial<MicroBatch>
}

/** Version being trained minus the oldest that generated a trained token of the sample; -1 where none is known. */
export function ageOf({ versions, lossMask }: Sample, { version }: CollateOptions): number {
  let oldest = Infinity
  for (const [index, each] of versions.entries()) if (lossMask[index] === 1 && each >= 0 && each < oldest) oldest = each
  return version === undefined || oldest === Infinity ? -1 : Math.max(0, version - oldest)
}
