// Runs one reward over rollouts. Every outcome is a value: what a reward throws, or never returns, hits only its own rollout.
import { CohortError } from "@cohort/errors"
import { describeValue } from "./describe.ts"
import { asRewardResult, failedReward } from "./result.ts"
import type { RewardContext, RewardFunction, RewardLike, RewardResult, ScoredRollout } from "./reward.ts"

/**
 * The object form of a reward; a bare function becomes `{ score }`.
 *
 * @throws CohortError `plugin_invalid` where the value has neither `score` nor `scoreGroup`.
 * @example toReward((rollout) => rollout.text.length)
 */
export function toReward<Row>(reward: RewardLike<Row>): RewardFunction<Row> {
  if (typeof reward === "function") return { score: reward }
  if (isReward<Row>(reward)) return reward
  throw new CohortError("plugin_invalid", `a reward must be a function or an object with score or scoreGroup, got ${describeValue(reward)}`, {
    hint: "Return (rollout, ctx) => number, or { score } or { scoreGroup }.",
  })
}

/** True for a value that is the object form of a reward. */
export function isReward<Row>(value: unknown): value is RewardFunction<Row> {
  if (typeof value !== "object" || value === null) return false
  const { score, scoreGroup } = value as { readonly score?: unknown; readonly scoreGroup?: unknown }
  return typeof score === "function" || typeof scoreGroup === "function"
}

/** The name that errors use where the host gives none. */
export function rewardName<Row>(reward: RewardLike<Row>): string {
  return typeof reward === "function" && reward.name !== "" ? reward.name : "reward"
}

/**
 * Scores rollouts and returns one result each, in order; whatever the reward does, it does not reject. `scoreGroup` is used where it exists, else `score` for all
 * rollouts at once. Thrown errors are `failed` and retryable; wrong values and a wrong count are `failed` and not. When
 * `ctx.signal` aborts, results still missing become `failed` at once (a timeout is retryable, a stopped run is not) and those
 * that are there are kept. A synchronous endless loop blocks its thread and cannot be ended here: isolate such a reward (`isolate` in the config).
 *
 * @param name How errors name the reward.
 * @example const results = await runReward(reward, group, ctx, "reward-math")
 */
export async function runReward<Row>(
  rewardLike: RewardLike<Row>,
  rollouts: readonly ScoredRollout<Row>[],
  ctx: RewardContext,
  name: string = rewardName(rewardLike),
): Promise<RewardResult[]> {
  if (rollouts.length === 0) return []
  const reward = toReward(rewardLike)
  if (ctx.signal.aborted) return rollouts.map(() => abortedResult(name, ctx.signal))
  const outcome = reward.scoreGroup === undefined
    ? Promise.all(rollouts.map((rollout) => bounded(name, ctx.signal, async () => [asRewardResult(await reward.score?.(rollout, ctx))], 1)))
    : bounded(name, ctx.signal, async () => groupResults(await reward.scoreGroup?.(rollouts, ctx), rollouts.length), rollouts.length).then((all) => [all])
  return (await outcome).flat().map((result) => (result.kind === "failed" ? named(name, result) : result))
}

function groupResults(values: unknown, expected: number): RewardResult[] {
  if (!Array.isArray(values)) return repeat(failedReward(`scoreGroup returned ${describeValue(values)}; expected an array of ${expected}`), expected)
  if (values.length !== expected)
    return repeat(failedReward(`scoreGroup returned ${values.length} values for ${expected} rollouts; expected ${expected}`), expected)
  // Array.from visits the holes of a sparse array, map would skip them.
  return Array.from(values, (value: unknown) => asRewardResult(value))
}

/** Runs `score` against the signal; whatever happens, `count` results come back. */
function bounded(name: string, signal: AbortSignal, score: () => Promise<RewardResult[]>, count: number): Promise<RewardResult[]> {
  return new Promise((resolve) => {
    const onAbort = () => resolve(repeat(abortedResult(name, signal), count))
    signal.addEventListener("abort", onAbort, { once: true })
    const settle = (results: RewardResult[]) => {
      signal.removeEventListener("abort", onAbort)
      resolve(results)
    }
    score().then(settle, (error: unknown) => settle(repeat(failedReward(`threw ${thrownText(error)}`, true), count)))
  })
}

function abortedResult(name: string, signal: AbortSignal): RewardResult {
  const timedOut = signal.reason instanceof Error && signal.reason.name === "TimeoutError"
  return named(name, failedReward(timedOut ? "gave no result before its deadline" : `was stopped: ${thrownText(signal.reason)}`, timedOut))
}

/** Unlike String(), this survives a thrown object that has no text form. */
function thrownText(error: unknown): string {
  if (error instanceof Error) return error.message === "" ? error.name : error.message
  return typeof error === "string" ? error : describeValue(error)
}

function named(name: string, result: RewardResult): RewardResult {
  if (result.kind !== "failed" || result.error.startsWith(`${name}: `)) return result
  return { ...result, error: `${name}: ${result.error}` }
}

function repeat(result: RewardResult, count: number): RewardResult[] {
  return Array.from({ length: count }, () => result)
}
