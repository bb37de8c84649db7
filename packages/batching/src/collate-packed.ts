// Lays packed rows out as the arrays of a compiled step, with what attention and per-sequence losses need to keep samples apart.
import { CohortError } from "@cohort/errors"
import { type CollateOptions, type EmptyBatch, emptyBatch, placePredictions } from "./collate.ts"
import { checkSample } from "./check.ts"
import type { PackedBatch, PackedRow } from "./pack.ts"
import { inputTokens, type MicroBatch, type PackedLayout, type Sample } from "./sample.ts"
import { neededLength, predictedFrom } from "./tree.ts"

/**
 * Each tree is its trunk, then its branches; trees follow one another, then padding. Positions are those within the sample, so they go on from the trunk's
 * with each branch and start again with each tree. A token of a trunk is seen by all branches behind it, a token of a branch by that branch only. The
 * predictions of a row are those of its samples one after another, then padding. `sampleIds` are in the order of rows and branches.
 *
 * @throws CohortError `internal` when a sample is malformed or a row does not fit the shape.
 * @example
 * const batch = collatePacked(plan.batches[0], plan.samplesPerRow)
 */
export function collatePacked({ rows, shape }: PackedBatch, samplesPerRow: number, options: CollateOptions = {}): MicroBatch {
  if (rows.length > shape.rows) throw new CohortError("internal", `${rows.length} packed rows for ${shape.rows} rows`)
  const size = shape.rows * shape.length
  const batch = emptyBatch(size, options)
  const packed = {
    samplesPerRow,
    // Padding sees itself, so that its softmax is over something.
    visibleUntil: Int32Array.from({ length: size }, (_, index) => (index % shape.length) + 1),
    source: new Int32Array(size),
    sequence: new Int32Array(size).fill(-1),
    samples: new Int32Array(shape.rows),
  }
  const totals = { trainedTokens: 0, forwardedTokens: 0 }
  const sampleIds: string[] = []
  for (const [index, row] of rows.entries()) {
    const samples = row.trees.flatMap((tree) => tree.samples)
    if (neededLength(row) > shape.length || samples.length > samplesPerRow)
      throw new CohortError("internal", `a row of ${row.tokens} tokens, ${row.predictions} predictions and ${samples.length} samples for a length of ${shape.length} and ${samplesPerRow} samples`)
    for (const sample of samples) checkSample(sample)
    layOutRow(row, index * shape.length, batch, packed, totals, options)
    packed.samples[index] = samples.length
    sampleIds.push(...samples.map(({ id }) => id))
  }
  return { rows: shape.rows, length: shape.length, ...batch, packed, sampleIds, ...totals }
}

function layOutRow({ trees }: PackedRow, rowStart: number, batch: EmptyBatch, packed: PackedLayout, totals: { trainedTokens: number; forwardedTokens: number }, options: CollateOptions): void {
  let at = rowStart
  let prediction = rowStart
  let sequence = 0
  const placeTokens = ({ tokenIds }: Sample, from: number, to: number): void => {
    for (let index = from; index < to; index++, at++) {
      batch.tokenIds[at] = tokenIds[index]!
      batch.attentionMask[at] = 1
      batch.positions[at] = index
    }
  }
  for (const { shared, samples, tokens } of trees) {
    const treeStart = at
    placeTokens(samples[0]!, 0, shared)
    packed.visibleUntil.fill(treeStart + tokens - rowStart, treeStart, at)
    for (const sample of samples) {
      const branchStart = at
      placeTokens(sample, shared, inputTokens(sample))
      packed.visibleUntil.fill(at - rowStart, branchStart, at)
      const from = predictedFrom(shared)
      totals.trainedTokens += placePredictions(batch, sample, from, prediction, options)
      for (let index = from; index < sample.tokenIds.length; index++, prediction++) {
        // The first token behind the trunk is predicted by the trunk's last one.
        packed.source[prediction] = (index === shared ? treeStart + shared - 1 : branchStart + index - 1 - shared) - rowStart
        packed.sequence[prediction] = sequence
      }
      sequence++
    }
  }
  totals.forwardedTokens += at - rowStart
}
