// Lays samples out as the rectangular arrays that a compiled step of fixed shape takes.
import { CohortError } from "@cohort/errors"
import { checkSample } from "./check.ts"
import type { BatchShape } from "./ladder.ts"
import type { MicroBatch, Sample } from "./sample.ts"

/**
 * One sample per row, padded on the right with `padId`, then rows of padding up to `shape.rows`. Positions count from 0 and
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
  let realTokens = 0
  for (const [row, sample] of samples.entries()) {
    checkSample(sample)
    const { tokenIds, lossMask } = sample
    if (tokenIds.length > length) throw new CohortError("internal", `sample ${sample.id} has ${tokenIds.length} tokens for a row of ${length}`)
    const start = row * length
    batch.tokenIds.set(tokenIds, start)
    batch.lossMask.set(lossMask, start)
    batch.attentionMask.fill(1, start, start + tokenIds.length)
    batch.advantages.fill(sample.advantage, start, start + tokenIds.length)
    batch.weights.fill(sample.weight, start, start + tokenIds.length)
    batch.ages?.fill(ageOf(sample, options), start, start + tokenIds.length)
    for (let index = 0; index < tokenIds.length; index++) {
      batch.positions[start + index] = index
      if (lossMask[index] === 0) continue
      batch.behaviorLogProbs[start + index] = sample.behaviorLogProbs[index]!
      batch.versions[start + index] = sample.versions[index]!
      trainedTokens++
    }
    realTokens += tokenIds.length
  }
  return { rows, length, ...batch, sampleIds: samples.map(({ id }) => id), trainedTokens, realTokens }
}

export interface CollateOptions {
  /** Token of padding; 0 when absent. */
  readonly padId?: number
  /** Policy version being trained: with it the batch says how old its tokens are. */
  readonly version?: number | undefined
}

/** Arrays of padding for `size` tokens. */
export function emptyBatch(size: number, { padId = 0, version }: CollateOptions) {
  return {
    tokenIds: new Int32Array(size).fill(padId),
    attentionMask: new Uint8Array(size),
    positions: new Int32Array(size),
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
