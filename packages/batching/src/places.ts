// Where in a micro-batch the trained tokens of each sample are predicted, whatever rows it has.
import type { MicroBatch } from "./sample.ts"

/**
 * Indices into the predictions of the batch of each sample's trained tokens, in the order of `sampleIds` and of the tokens.
 *
 * @example
 * trainedPlaces(batch)[0].map((at) => batch.behaviorLogProbs[at]) // of sample batch.sampleIds[0]
 */
export function trainedPlaces({ rows, length, lossMask, packed, sampleIds }: MicroBatch): readonly (readonly number[])[] {
  const places: number[][] = sampleIds.map(() => [])
  let before = 0
  for (let row = 0; row < rows; row++) {
    for (let at = row * length; at < (row + 1) * length; at++) if (lossMask[at] === 1) places[before + (packed === undefined ? 0 : packed.sequence[at]!)]!.push(at)
    before += packed === undefined ? 1 : packed.samples[row]!
  }
  return places
}
