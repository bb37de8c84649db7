// A micro-batch in parts that are computed side by side: losses, gradients and metrics add up over them as over micro-batches.
import type { MicroBatch } from "./sample.ts"

const perPlace = ["tokenIds", "attentionMask", "positions", "targets", "lossMask", "behaviorLogProbs", "advantages", "weights", "versions", "ages", "referenceLogProbs", "proximalLogProbs"] as const satisfies readonly (keyof MicroBatch)[]

/**
 * Consecutive rows of the batch in at most `parts` parts, whose sizes differ by one row at most. Their arrays are views of the batch's.
 *
 * @param parts at least 1
 * @example
 * splitRows(batch, 2).map(({ rows }) => rows) // [3, 2] for five rows
 */
export function splitRows(batch: MicroBatch, parts: number): readonly MicroBatch[] {
  const count = Math.min(parts, batch.rows)
  if (count <= 1) return [batch]
  const samplesBefore = samplesBeforeRows(batch)
  const startOf = (part: number): number => Math.ceil((part * batch.rows) / count)
  return Array.from({ length: count }, (_, part) => rowsOf(batch, startOf(part), startOf(part + 1), samplesBefore))
}

function rowsOf(batch: MicroBatch, from: number, to: number, samplesBefore: Int32Array): MicroBatch {
  const { length, packed } = batch
  const cut = <T extends Int32Array | Uint8Array | Float32Array>(values: T): T => values.subarray(from * length, to * length) as T
  const arrays = Object.fromEntries(perPlace.flatMap((name) => (batch[name] === undefined ? [] : [[name, cut(batch[name])]]))) as Pick<MicroBatch, (typeof perPlace)[number]>
  return {
    rows: to - from,
    length,
    ...arrays,
    ...(packed === undefined ? {} : { packed: { ...packed, visibleUntil: cut(packed.visibleUntil), source: cut(packed.source), sequence: cut(packed.sequence), samples: packed.samples.subarray(from, to) } }),
    sampleIds: batch.sampleIds.slice(samplesBefore[from], samplesBefore[to]),
    trainedTokens: ones(arrays.lossMask),
    forwardedTokens: ones(arrays.attentionMask),
  }
}

/** For each row how many samples are in the rows before it, and their number at the end. */
function samplesBeforeRows({ rows, packed, sampleIds }: MicroBatch): Int32Array {
  const before = new Int32Array(rows + 1)
  for (let row = 0; row < rows; row++) {
    // Rows of padding come last and have no sample.
    before[row + 1] = Math.min(sampleIds.length, before[row]! + (packed === undefined ? 1 : packed.samples[row]!))
  }
  return before
}

function ones(mask: Uint8Array): number {
  return mask.reduce((sum, one) => sum + one, 0)
}
