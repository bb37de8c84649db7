// From the config to how the steps of a run are cut into micro-batches.
import { rowsOfLongest, type StepPlannerOptions } from "@cohort/batching"
import { type RunConfig, tokenBudget } from "@cohort/config"
import { CohortError } from "@cohort/errors"
import type { TrainerBackend } from "./backend.ts"

export interface BatchingFacts {
  readonly backend: Pick<TrainerBackend, "packing" | "lanes">
  /** What the inference servers say, tokens. */
  readonly maxModelLength: number
  /** With tools or an environment a sample may hold several turns, so only the model's length limits it. */
  readonly multiTurn: boolean
}

/**
 * Limits and packing of a run's steps. A backend that takes no packed rows gets a row per sample.
 *
 * @throws CohortError `config_invalid` when `train.packing` is "packed" with such a backend.
 */
export function plannerOptions(config: RunConfig, { backend, maxModelLength, multiTurn }: BatchingFacts): StepPlannerOptions {
  const { data, rollout, train } = config
  if (train.packing === "packed" && backend.packing === undefined)
    throw new CohortError("config_invalid", `train.packing is "packed", and backend.kind = "${config.backend.kind}" takes one completion a row`, { hint: 'Set train.packing to "auto" or "rows".' })
  const single = data.maxPromptTokens + rollout.maxCompletionTokens
  const known = Number.isSafeInteger(maxModelLength) && maxModelLength > 0
  return {
    maxLength: !known ? single : multiTurn ? maxModelLength : Math.min(maxModelLength, single),
    ...(train.samplesPerBatch === undefined ? { tokenBudget: tokenBudget(config, maxModelLength).value } : { samplesPerBatch: train.samplesPerBatch }),
    samplesPerStep: train.completionsPerStep,
    packing: backend.packing === undefined ? "rows" : train.packing,
    ...(backend.packing === undefined ? {} : { cost: backend.packing }),
    ...(backend.lanes === undefined ? {} : { lanes: backend.lanes }),
  }
}

/** Rows that every micro-batch has room for, those of the longest samples too. */
export function rowsThatFit({ maxLength, tokenBudget, samplesPerBatch }: StepPlannerOptions): number {
  return samplesPerBatch ?? rowsOfLongest(maxLength, tokenBudget!)
}
