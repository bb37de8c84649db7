// What a step's summed losses are divided by. It spans the whole optimizer window, so cutting the window into micro-batches changes nothing.
import { objectives } from "./objectives/registry.ts"
import type { ObjectiveKind } from "./objective.ts"

/** Totals of one optimizer window, over all micro-batches (and workers). */
export interface WindowTotals {
  readonly trainedTokens: number
  /** Samples with at least one trained token. */
  readonly completions: number
  /** The configured limit, a constant of the run: what dr_grpo divides by instead of the real lengths. */
  readonly maxCompletionTokens: number
}

/**
 * The `normalizer` of an objective, never under 1:
 * token-mean kinds (dapo, bnpo, cispo, vespo): trained tokens of the window;
 * sequence-mean kinds (grpo, gspo, gspo_token, sapo) and luspo: completions of the window;
 * dr_grpo: completions * maxCompletionTokens.
 *
 * @example
 * windowNormalizer("dapo", { trainedTokens: 1000, completions: 8, maxCompletionTokens: 512 }) // 1000
 */
export function windowNormalizer(kind: ObjectiveKind, totals: WindowTotals): number {
  switch (objectives[kind].reduction) {
    case "token":
      return Math.max(totals.trainedTokens, 1)
    case "sequence":
    case "sequenceSum":
      return Math.max(totals.completions, 1)
    case "constant":
      return Math.max(totals.completions * totals.maxCompletionTokens, 1)
  }
}
