// Where in a micro-batch the trained tokens of each sample are, whatever rows it has.
import type { MicroBatch } from "./sample.ts"

/**
 * Indices into the arrays of the batch of each sample's trained tokens, in the order of `sampleIds` and of the tokens.
 *
 * @example
 * trainedPlaces(batch)[0].map((at) => batch.behaviorLogProbs[at]) // of sample batch.sampleIds[0]
 */
export function trainedPlaces({ rows, length, attentionMask, lossMask, packed, sampleIds }: MicroBatch): readonly (readonly number[])[] {
  const places: number[][] = sampleIds.map(() => [])
  let before = 0
  for (let row = 0; row < rows; row++) {
    let inRow = 0
    for (let at = row * length; at < (row + 1) * length; at++) {
      if (attentionMask[at] === 0) continue
      const number = packed === undefined ? 0 : packed.sequence[at]!
      inRow = Math.max(inRow, number + 1)
      if (lossMask[at] === 1) places[before + number]!.push(at)
    }
    before += inRow
  }
  return places
}
