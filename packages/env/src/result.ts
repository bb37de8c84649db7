// What a reward returned, turned into a RewardResult. Anything that is not a score becomes a failure that names the value.
import { describeValue } from "./describe.ts"
import type { RewardResult } from "./reward.ts"

/**
 * Reads the return value of a reward: a finite number is `ok`, null is `notApplicable`, a RewardResult is checked and kept.
 * NaN, infinities, undefined, strings, booleans and malformed objects are `failed` and not retryable. Never throws.
 *
 * @example asRewardResult(Number.NaN) // { kind: "failed", error: "returned NaN; ...", retryable: false }
 */
export function asRewardResult(value: unknown): RewardResult {
  if (value === null) return { kind: "notApplicable" }
  if (typeof value === "number") return Number.isFinite(value) ? { kind: "ok", value } : refused(value)
  if (typeof value !== "object") return refused(value)
  const result = value as { readonly [key in "kind" | "value" | "parts" | "reason" | "error" | "retryable"]?: unknown }
  if (result.kind === "notApplicable") return { kind: "notApplicable" }
  if (result.kind === "failed") return { kind: "failed", error: failureText(result.error), retryable: result.retryable === true }
  if (result.kind !== "ok") return refused(value)
  if (typeof result.value !== "number" || !Number.isFinite(result.value)) return refused(result.value, "value ")
  const parts = result.parts
  if (parts !== undefined && !isParts(parts)) return refused(parts, "parts ")
  return {
    kind: "ok",
    value: result.value,
    ...(parts === undefined ? {} : { parts }),
    ...(typeof result.reason === "string" ? { reason: result.reason } : {}),
  }
}

/** A failure that leaves the statistics of its group; `retryable` where the same call may succeed later. */
export function failedReward(error: string, retryable = false): RewardResult {
  return { kind: "failed", error, retryable }
}

function refused(value: unknown, field = ""): RewardResult {
  return failedReward(`returned ${field}${describeValue(value)}; expected a finite number, null or a RewardResult`)
}

function failureText(error: unknown): string {
  return typeof error === "string" && error !== "" ? error : `failed without a text: ${describeValue(error)}`
}

function isParts(parts: unknown): parts is Record<string, number> {
  if (typeof parts !== "object" || parts === null || Array.isArray(parts)) return false
  return Object.values(parts).every((part) => typeof part === "number" && Number.isFinite(part))
}
