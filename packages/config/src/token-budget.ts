// The token budget of a micro-batch when it is left to the servers.
import type { RunConfig } from "./schema.ts"

/** A number and the sentence that says where it is from. */
export interface Chosen {
  readonly value: number
  readonly because: string
}

/**
 * Tokens per micro-batch: `train.tokenBudget`, else the longest sequence that `inference.maxModelLength` or the servers allow. A server that
 * reports none leaves the longest single-turn row, prompt and completion, so that such rows always fit. What is not given is at least
 * {@link leastBudget}: smaller micro-batches spend their time on calls and on adding up gradients.
 *
 * @param reportedMaxModelLength what the servers say, tokens; undefined (or no positive integer) when they say nothing
 * @example
 * tokenBudget(config, health.maxModelLength) // { value: 4096, because: "the servers allow 4096 tokens" }
 */
export function tokenBudget(config: RunConfig, reportedMaxModelLength?: number): Chosen {
  const chosen = longestSequence(config, reportedMaxModelLength)
  return config.train.tokenBudget !== "auto" || chosen.value >= leastBudget ? chosen : { value: leastBudget, because: `${chosen.because}, and ${leastBudget} is the least` }
}

/** Least budget that is chosen by itself, tokens. */
export const leastBudget = 2048

function longestSequence(config: RunConfig, reportedMaxModelLength: number | undefined): Chosen {
  const { train, inference, data, rollout } = config
  if (train.tokenBudget !== "auto") return { value: train.tokenBudget, because: "train.tokenBudget" }
  if (inference.maxModelLength !== "auto") return { value: inference.maxModelLength, because: "inference.maxModelLength" }
  if (reportedMaxModelLength !== undefined && Number.isSafeInteger(reportedMaxModelLength) && reportedMaxModelLength > 0)
    return { value: reportedMaxModelLength, because: `the servers allow ${reportedMaxModelLength} tokens` }
  const value = data.maxPromptTokens + rollout.maxCompletionTokens
  return { value, because: `the servers report no length, so data.maxPromptTokens + rollout.maxCompletionTokens = ${value}` }
}

/** Prompts trained per optimizer step: whole groups. */
export function promptsPerStep(config: RunConfig): number {
  return config.train.completionsPerStep / config.rollout.groupSize
}
