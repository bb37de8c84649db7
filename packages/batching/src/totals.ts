// What an optimizer window trains in all: the numbers that its loss is normalised by.
import type { Sample } from "./sample.ts"

/** Trained tokens, and samples that have at least one, of a whole optimizer step (before it is cut into micro-batches). */
export function windowTotals(samples: readonly Pick<Sample, "lossMask">[]): { readonly trainedTokens: number; readonly completions: number } {
  let trainedTokens = 0
  let completions = 0
  for (const { lossMask } of samples) {
    let trained = 0
    for (const mask of lossMask) trained += mask
    trainedTokens += trained
    if (trained > 0) completions++
  }
  return { trainedTokens, completions }
}
