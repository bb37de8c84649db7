// How many completions are decoded at once where the config leaves it open.
import { parameterCount, parameterLayout, readModelConfig } from "@cohort/model"

/** A call of a model below this size is mostly fixed work, which more rows share, and its cache is small. */
const tinyParameters = 5_000_000
const tinySlots = 256
const usualSlots = 64

/**
 * Slots of a run: no more than a step trains.
 *
 * @throws CohortError `model_invalid`
 * @example
 * slotsFor("models/arithmetic-1m", 256) // 256; 64 for a model of 100 million parameters
 */
export function slotsFor(modelFolder: string, completionsPerStep: number): number {
  const parameters = parameterCount(parameterLayout(readModelConfig(modelFolder)))
  return Math.min(parameters < tinyParameters ? tinySlots : usualSlots, completionsPerStep)
}
