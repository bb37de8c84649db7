// Rewards of a group: every reward bounded and retried on its own, then one weighted sum per rollout. A rollout with a failed
// reward leaves the group; a reward that does not apply leaves the sum.
import { type PromptRow, type RewardLike, type RewardResult, runReward, type ScoredRollout } from "@cohort/env"
import { CohortError } from "@cohort/errors"
import { timerOver } from "./timer-over.ts"
import type { DropReason } from "./generation.ts"
import type { Episode } from "./episode.ts"
import type { Clock } from "./protocol.ts"

/** A reward of a run. */
export interface RewardEntry {
  readonly name: string
  readonly weight: number
  readonly reward: RewardLike
  readonly timeoutMs: number
  /** Calls per rollout before a retryable failure counts; 1 is no retry. */
  readonly maxAttempts: number
  /** What a failure that stays does: the rollout leaves its group (default), or scoring throws, which ends the run. */
  readonly onFailure?: "drop" | "abort"
}

/** What scoring says about one rollout. */
export type MemberScore =
  | {
      readonly kind: "scored"
      readonly total: number
      /** Value per reward, and `reward/part` for what it is made of; rewards that do not apply are absent. */
      readonly parts: Readonly<Record<string, number>>
    }
  | { readonly kind: "failed"; readonly reason: DropReason; readonly error: string }

export interface ScoringOptions {
  readonly row: PromptRow
  readonly rewards: readonly RewardEntry[]
  /** Weight of what environments say about themselves; it appears as the part `environment`. */
  readonly environmentWeight: number
  readonly policyVersion: number
  readonly retryDelayMs: number
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly log: (message: string) => void
}

/**
 * Scores finished rollouts, one result each in order. All rewards run at the same time.
 *
 * total = sum of weight x value over the rewards that apply; when none applies the rollout fails with `no_reward`.
 *
 * @throws CohortError `reward_failed`, naming the reward, for a failure that stays of a reward with `onFailure: "abort"`
 * @example
 * const scores = await scoreEpisodes(episodes, { row, rewards, environmentWeight: 1, policyVersion: 3, retryDelayMs: 500, clock, signal, log })
 */
export async function scoreEpisodes(episodes: readonly Episode[], options: ScoringOptions): Promise<readonly MemberScore[]> {
  const rollouts = episodes.map((episode) => asScored(episode, options.row))
  const columns = await Promise.all(
    options.rewards.map(async (entry) => ({ name: entry.name, weight: entry.weight, results: await callReward(entry, rollouts, options) })),
  )
  for (const [index, entry] of options.rewards.entries()) if (entry.onFailure === "abort") refuseFailures(entry, columns[index]!.results, episodes, options)
  return episodes.map((episode, index) => {
    const results = columns.map(({ name, weight, results }) => ({ name, weight, result: results[index]! }))
    const own = episode.environmentScore
    if (own !== undefined) results.push({ name: "environment", weight: options.environmentWeight, result: own })
    return addUp(results)
  })
}

/** Calls one reward until no result asks for another try; a group reward is called again for the whole group. */
async function callReward(
  entry: RewardEntry,
  rollouts: readonly ScoredRollout[],
  options: ScoringOptions,
): Promise<readonly RewardResult[]> {
  const whole = typeof entry.reward === "object" && entry.reward.scoreGroup !== undefined
  const results: RewardResult[] = []
  let asked = rollouts.map((_, index) => index)
  for (let attempt = 1; ; attempt++) {
    const answers = await callOnce(entry, asked.map((index) => rollouts[index]!), options)
    for (const [i, index] of asked.entries()) results[index] = answers[i]!
    const again = asked.filter((index) => isRetryable(results[index]!))
    if (again.length === 0 || attempt >= entry.maxAttempts || options.signal.aborted) return results
    if (!whole) asked = again
    await options.clock.sleep(options.retryDelayMs * 2 ** (attempt - 1), options.signal)
  }
}

async function callOnce(entry: RewardEntry, rollouts: readonly ScoredRollout[], options: ScoringOptions): Promise<readonly RewardResult[]> {
  const { clock, signal, log, policyVersion } = options
  const deadline = new AbortController()
  const timer = new AbortController()
  const onAbort = (): void => deadline.abort(signal.reason)
  signal.addEventListener("abort", onAbort, { once: true })
  if (signal.aborted) onAbort()
  clock.sleep(entry.timeoutMs, timer.signal).then(
    () => deadline.abort(new DOMException(`no result within ${entry.timeoutMs} ms`, "TimeoutError")),
    // The timer is aborted below once the reward has answered; that is its normal end.
    () => undefined,
  )
  try {
    const ctx = { signal: deadline.signal, log: (message: string) => log(`${entry.name}: ${message}`), policyVersion }
    return await runReward(entry.reward, rollouts, ctx, entry.name)
  } finally {
    signal.removeEventListener("abort", onAbort)
    timer.abort(timerOver)
  }
}

function refuseFailures(entry: RewardEntry, results: readonly RewardResult[], episodes: readonly Episode[], options: ScoringOptions): void {
  // A stopped run fails its rewards by itself.
  if (options.signal.aborted) return
  const index = results.findIndex(({ kind }) => kind === "failed")
  const result = results[index]
  if (result?.kind !== "failed") return
  const tries = result.retryable ? ` after ${entry.maxAttempts} ${entry.maxAttempts === 1 ? "try" : "tries"}` : ""
  throw new CohortError("reward_failed", `reward ${entry.name} failed${tries} on row ${options.row.id}: ${result.error}`, {
    hint: 'Its onFailure is "abort": mend the reward, raise its retries, or let failures leave their group with "drop".',
    details: { reward: entry.name, row: options.row.id, rolloutId: episodes[index]!.rolloutId, error: result.error },
  })
}

function addUp(results: readonly { readonly name: string; readonly weight: number; readonly result: RewardResult }[]): MemberScore {
  const parts: Record<string, number> = {}
  let total = 0
  for (const { name, weight, result } of results) {
    if (result.kind === "failed") return { kind: "failed", reason: "reward_failed", error: result.error }
    if (result.kind === "notApplicable") continue
    total += weight * result.value
    parts[name] = result.value
    for (const [part, value] of Object.entries(result.parts ?? {})) parts[`${name}/${part}`] = value
  }
  if (Object.keys(parts).length === 0) return { kind: "failed", reason: "no_reward", error: "no reward applies to this rollout" }
  return { kind: "scored", total, parts }
}

function isRetryable(result: RewardResult): boolean {
  return result.kind === "failed" && result.retryable
}

function asScored(episode: Episode, row: PromptRow): ScoredRollout {
  const { prompt, completion, text, completionIds, turns, finishReason } = episode
  return { row, prompt, completion, text, completionIds, turns, finishReason }
}
