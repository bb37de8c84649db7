// The environment's part in a rollout: made, reset, asked, scored and closed, each call bounded and its failure a value.
import { asRewardResult, type AssistantTurn, type Environment, type EpisodeContext, type Message, type RewardResult } from "@cohort/env"
import { messageOf } from "@cohort/errors"
import { bounded as boundedBy, withDeadline } from "./deadline.ts"
import type { EpisodeOptions } from "./episode.ts"
import { failed, isFailure, type RolloutFailure } from "./generation.ts"

/** The row's prompt and what `reset` observed. With an environment or tools a text prompt is the user's message. */
export async function openingPrompt(
  options: EpisodeOptions,
  environment: Environment | undefined,
  ctx: EpisodeContext,
): Promise<string | readonly Message[] | RolloutFailure> {
  const { prompt } = options.row
  if (environment === undefined && options.tools === undefined) return prompt
  const messages: readonly Message[] = typeof prompt !== "string" ? prompt : prompt === "" ? [] : [{ role: "user", content: prompt }]
  const opening = environment === undefined ? messages : await observed(options, environment, messages, ctx)
  return !isFailure(opening) && opening.length === 0 ? failed("prompt_empty", "the row has no prompt, and the environment's reset gave none", false) : opening
}

/** `messages` and what `reset` says: text goes on in the last message of the user, messages follow. */
async function observed(options: EpisodeOptions, environment: Environment, messages: readonly Message[], ctx: EpisodeContext): Promise<readonly Message[] | RolloutFailure> {
  const observation = await bounded(options, "environment reset", () => environment.reset(options.row, ctx))
  if (isFailure(observation)) return observation
  if (observation === undefined) return messages
  if (typeof observation !== "string") return [...messages, ...observation]
  const at = messages.findLastIndex(({ role }) => role === "user")
  const last = messages[at]
  if (last === undefined) return [...messages, { role: "user", content: observation }]
  return messages.with(at, { ...last, content: last.content + observation })
}

/** What the environment says after a turn without tool calls; `done` when it says nothing. */
export async function environmentReply(
  options: EpisodeOptions,
  environment: Environment,
  turn: AssistantTurn,
): Promise<{ readonly messages: readonly Message[]; readonly done: boolean } | RolloutFailure> {
  if (environment.respond === undefined) return { messages: [], done: true }
  const reply = await bounded(options, "environment respond", () => environment.respond!(turn))
  if (isFailure(reply)) return reply
  const { messages = [], done = false } = reply ?? {}
  return { messages, done: done || messages.length === 0 }
}

export async function environmentScore(options: EpisodeOptions, environment: Environment): Promise<RewardResult> {
  const score = await bounded(options, "environment score", () => environment.score!())
  // The episode is over and cannot be scored again by itself.
  return asRewardResult(isFailure(score) ? { kind: "failed", error: score.error, retryable: false } : score)
}

/** A call into the environment: bounded, and its exception a failure of the rollout. */
async function bounded<T>(options: EpisodeOptions, what: string, call: () => T | Promise<T>): Promise<T | RolloutFailure> {
  const { clock, limits, signal } = options
  try {
    return await boundedBy({ clock, timeoutMs: limits.environmentTimeoutMs, signal, what }, call)
  } catch (error) {
    if (signal.aborted) throw signal.reason
    return failed("environment_failed", `${what}: ${messageOf(error)}`, true)
  }
}

export function openEnvironment(options: EpisodeOptions): { readonly instance: Environment | undefined } | RolloutFailure {
  try {
    return { instance: options.environment?.() }
  } catch (error) {
    return failed("environment_failed", `environment could not be made: ${messageOf(error)}`, true)
  }
}

export async function closeEnvironment(environment: Environment | undefined, options: EpisodeOptions): Promise<void> {
  if (environment?.close === undefined) return
  const { clock, limits, log, rolloutId } = options
  try {
    // Closed also when the rollout was aborted, so the outer signal does not count here.
    const signal = new AbortController().signal
    await withDeadline({ clock, timeoutMs: limits.environmentTimeoutMs, signal, what: "environment close" }, () => environment.close!())
  } catch (error) {
    log(`rollout ${rolloutId}: environment close failed: ${messageOf(error)}`)
  }
}
