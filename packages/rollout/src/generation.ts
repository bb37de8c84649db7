// What comes back from an inference server, checked once where it enters: lengths, finite log-probs, version spans.
import { isCohortError, messageOf } from "@cohort/errors"
import type { Generation, VersionSpan } from "@cohort/inference"
import type { TurnRecord } from "./reconcile.ts"

/** Why a rollout or a whole group did not become training data. A closed list: dashboards count by it. */
export type DropReason =
  | "prompt_too_long"
  | "prompt_empty"
  | "empty_completion"
  | "generation_invalid"
  | "generation_aborted"
  | "generation_timeout"
  | "inference_rejected"
  | "inference_failed"
  | "environment_failed"
  | "episode_timeout"
  | "template_broken"
  | "reward_failed"
  | "no_reward"
  | "zero_spread"
  | "advantages_undefined"
  | "stale"
  | "surplus"
  | "version_invalid"
  | "aborted"
  | "internal"

/** A failure as a value: what happened and whether trying again can help. */
export interface RolloutFailure {
  readonly kind: "failed"
  readonly reason: DropReason
  readonly error: string
  readonly retryable: boolean
}

export function failed(reason: DropReason, error: string, retryable: boolean): RolloutFailure {
  return { kind: "failed", reason, error, retryable }
}

/** Turns what `generate` threw into a value. A rejected request (the server's 4xx) is never tried again. */
export function failureOfError(error: unknown, signal: AbortSignal): RolloutFailure {
  const code = isCohortError(error) ? error.code : "internal"
  if (signal.aborted && code !== "timeout") return failed("aborted", messageOf(signal.reason), false)
  if (code === "inference_rejected") return failed("inference_rejected", messageOf(error), false)
  if (code === "timeout") return failed("generation_timeout", messageOf(error), true)
  if (code === "aborted") return failed("generation_aborted", messageOf(error), true)
  return failed("inference_failed", messageOf(error), true)
}

/** Policy version of each of `length` tokens out of ascending spans; null when the spans do not cover them. */
export function versionsPerToken(spans: readonly VersionSpan[], length: number): Int32Array | null {
  if (spans[0]?.[0] !== 0) return null
  const versions = new Int32Array(length)
  for (let i = 0; i < spans.length; i++) {
    const [from, version] = spans[i]!
    const to = spans[i + 1]?.[0] ?? Math.max(from, length)
    if (!Number.isInteger(from) || !Number.isInteger(version) || version < 0 || to < from) return null
    versions.fill(version, from, Math.min(to, length))
  }
  return versions
}

/** A checked turn, or why the generation cannot be trained. */
export function turnOf(promptIds: Int32Array, generation: Generation | undefined): TurnRecord | RolloutFailure {
  if (generation === undefined) return failed("inference_failed", "the server returned fewer completions than asked for", true)
  const { tokenIds, logProbs, finishReason } = generation
  if (finishReason === "abort") return failed("generation_aborted", "the server aborted the generation", true)
  if (logProbs.length !== tokenIds.length)
    return failed("generation_invalid", `${tokenIds.length} token ids with ${logProbs.length} log-probs`, true)
  const bad = firstImpossible(logProbs)
  if (bad >= 0) return failed("generation_invalid", `log-prob ${logProbs[bad]} at token ${bad}`, true)
  const versions = versionsPerToken(generation.versions, tokenIds.length)
  if (versions === null) return failed("generation_invalid", `version spans ${JSON.stringify(generation.versions)}`, true)
  return { promptIds, tokenIds, logProbs, versions }
}

/** Index of the first value that is no log-prob; -1 when all are. */
function firstImpossible(logProbs: Float32Array): number {
  for (let i = 0; i < logProbs.length; i++) if (!(logProbs[i]! <= 1e-3 && logProbs[i]! > Number.NEGATIVE_INFINITY)) return i
  return -1
}

/** True for a failure, whatever an environment or server gave. */
export function isFailure(value: unknown): value is RolloutFailure {
  return typeof value === "object" && value !== null && "kind" in value && value.kind === "failed"
}
