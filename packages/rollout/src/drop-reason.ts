// What a reason for dropping means to whoever must hear of it: an error code and the way out.
import type { CohortErrorCode } from "@cohort/errors"
import type { DropReason } from "./generation.ts"

/** The code of an error that ends a run since groups end for `reason`. */
export function codeOfReason(reason: DropReason): CohortErrorCode {
  if (reason === "inference_rejected" || reason === "inference_failed") return reason
  if (reason === "environment_failed" || reason === "reward_failed") return reason
  if (reason === "generation_timeout" || reason === "episode_timeout") return "timeout"
  if (reason === "prompt_too_long" || reason === "prompt_empty" || reason === "no_reward") return "config_invalid"
  return reason === "template_broken" ? "tokenizer_invalid" : "worker_failed"
}

/** What to do about it. */
export function hintOfReason(reason: DropReason): string {
  if (reason === "zero_spread") return "All completions of each prompt score the same: the task is too easy or too hard for the policy. Measure its pass rate first."
  if (reason === "prompt_too_long") return "Raise data.maxPromptTokens or the servers' window, or leave the long prompts out of the dataset."
  if (reason === "stale" || reason === "version_invalid") return "The servers' weights do not follow the trainer: look at the weight syncs."
  if (reason === "no_reward") return "Give the run a reward that applies to these rows."
  if (reason === "reward_failed") return "Check the reward, and the columns of the rows that it reads."
  return "Look at the first of these failures in the ledger."
}
