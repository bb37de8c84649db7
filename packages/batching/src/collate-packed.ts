// Lays packed rows out as the arrays of a compiled step, with what attention and per-sequence losses need to keep samples apart.
import { CohortError } from "@cohort/errors"
import { ageOf, type CollateOptions, emptyBatch } from "./collate.ts"
import { checkSample } from "./check.ts"
import type { PackedBatch, PackedRow } from "./pack.ts"
import type { MicroBatch, PackedLayout, Sample } from "./sample.ts"

/**
 * Each tree is its trunk, then its branches; trees follow one another, then padding. Positions are those within the sample, so they start again with
 * each branch and each tree. A token of a trunk is seen by all branches behind it, a token of a branch by that branch only. `sampleIds` are in the
 * order of rows and branches.
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
    sequence: new Int32Array(size).fill(-1),
  }
  const totals = { trainedTokens: 0, realTokens: 0 }
  const sampleIds: string[] = []
  for (const [index, row] of rows.entries()) {
    const samples = row.trees.flatMap((tree) => tree.samples)
    if (row.tokens > shape.length || samples.length > samplesPerRow)
      throw new CohortError("internal", `a row of ${row.tokens} tokens and ${samples.length} samples for ${shape.length} tokens and ${samplesPerRow} samples`)
    layOutRow(row, index * shape.length, batch, packed, totals, options)
    sampleIds.push(...samples.map(({ id }) => id))
  }
  return { rows: shape.rows, length: shape.length, ...batch, packed, sampleIds, ...totals }
}

function layOutRow({ trees }: PackedRow, rowStart: number, batch: ReturnType<typeof emptyBatch>, packed: PackedLayout, totals: { trainedTokens: number; realTokens: number }, options: CollateOptions): void {
  let at = rowStart
  let sequence = 0
  const place = (sample: Sample, from: number, to: number, number: number): void => {
    for (let index = from; index < to; index++, at++) {
      batch.tokenIds[at] = sample.tokenIds[index]!
      batch.attentionMask[at] = 1
      batch.positions[at] = index
      packed.sequence[at] = number
      totals.realTokens++
      if (number === -1 || index === 0) continue
      batch.advantages[at] = sample.advantage
      batch.weights[at] = sample.weight
      if (sample.lossMask[index] === 0) continue
      batch.lossMask[at] = 1
      batch.behaviorLogProbs[at] = sample.behaviorLogProbs[index]!
      batch.versions[at] = sample.versions[index]!
      totals.trainedTokens++
    }
  }
  for (const { shared, samples, tokens } of trees) {
    const treeStart = at
    const trunk = samples[0]!
    place(trunk, 0, shared, -1)
    packed.visibleUntil.fill(treeStart + tokens - rowStart, treeStart, at)
    for (const sample of samples) {
      checkSample(sample)
      const branchStart = at
      place(sample, shared, sample.tokenIds.length, sequence++)
      batch.ages?.fill(ageOf(sample, options), branchStart, at)
      packed.visibleUntil.fill(at - rowStart, branchStart, at)
    }
  }
}
