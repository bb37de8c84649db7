import { expect, test } from "bun:test"
import type { RewardLike, RewardResult } from "@cohort/env"
import type { Episode } from "./episode.ts"
import { buildSampleGroup, hasZeroSpread } from "./group-samples.ts"
import { type RewardEntry, scoreEpisodes } from "./scoring.ts"
import { createVirtualClock } from "./testing/virtual-clock.ts"

const episode = (member: number, over: Partial<Episode> = {}): Episode => ({
  rolloutId: `g0.${member}.1`, member, prompt: "p", completion: [], text: String(member), completionIds: Int32Array.of(5, 6), turns: 1, finishReason: "stop",
  truncated: false, toolCalls: 0, toolFailures: 0, toolMs: 0, endedBy: "stop", tally: { transitions: 0, clean: 0, realign: 0, fork: 0, driftTokens: 0, driftMax: 0 },
  rows: [{ tokenIds: Int32Array.of(1, 5, 6), lossMask: Uint8Array.of(0, 1, 1), behaviorLogProbs: Float32Array.of(0, -1, -1), versions: Int32Array.of(-1, 3, 4) }],
  ...over,
})
const entry = (name: string, reward: RewardLike, over: Partial<RewardEntry> = {}): RewardEntry => ({ name, weight: 1, reward, timeoutMs: 1000, maxAttempts: 1, ...over })
const score = async (episodes: readonly Episode[], rewards: readonly RewardEntry[], signal = new AbortController().signal) => {
  const clock = createVirtualClock()
  const result = await clock.run(scoreEpisodes(episodes, { row: { id: "r", prompt: "p" }, rewards, environmentWeight: 0.5, policyVersion: 2, retryDelayMs: 100, clock, signal, log: () => undefined }))
  return { result, clock }
}

test("weighted sum of what applies; parts by name; the environment's own score beside them", async () => {
  const own: RewardResult = { kind: "ok", value: 4 }
  const { result } = await score([episode(0, { environmentScore: own }), episode(1)], [
    entry("a", (rollout) => ({ kind: "ok", value: Number(rollout.text) + 1, parts: { format: 0.5 } }), { weight: 2 }),
    entry("b", (rollout) => (rollout.text === "0" ? 10 : null)),
  ])
  expect(result).toEqual([
    { kind: "scored", total: 2 + 10 + 2, parts: { a: 1, "a/format": 0.5, b: 10, environment: 4 } },
    { kind: "scored", total: 4, parts: { a: 2, "a/format": 0.5 } },
  ])
})

test("a rollout without any reward that applies, or with a failed one, fails instead of scoring zero", async () => {
  const { result } = await score([episode(0), episode(1), episode(2)], [entry("a", (rollout) => {
    if (rollout.text === "1") throw new Error("bad parse")
    return rollout.text === "2" ? Number.NaN : null
  })])
  expect(result.map((one) => (one.kind === "failed" ? one.reason : one.total))).toEqual(["no_reward", "reward_failed", "reward_failed"])
  expect(result[1]).toMatchObject({ error: "a: threw bad parse" })
})

test("a hanging reward is cut at its deadline and tried again for its own rollout only", async () => {
  const calls: string[] = []
  const shaky = entry("shaky", (rollout) => {
    calls.push(rollout.text)
    return rollout.text === "1" && calls.length < 3 ? new Promise<number>(() => undefined) : 1
  }, { maxAttempts: 2 })
  const { result, clock } = await score([episode(0), episode(1)], [shaky])
  expect(result.map(({ kind }) => kind)).toEqual(["scored", "scored"])
  expect(calls).toEqual(["0", "1", "1"])
  expect(clock.now()).toBe(1100)
  expect(clock.pending).toBe(0)
})

test("a group reward sees all rollouts, again on a retry", async () => {
  const sizes: number[] = []
  const group = entry("rank", { scoreGroup: (rollouts) => {
    sizes.push(rollouts.length)
    if (sizes.length === 1) return rollouts.map((_, index) => (index === 0 ? { kind: "failed", error: "busy", retryable: true } : 9))
    return rollouts.map((_, index) => index)
  } }, { maxAttempts: 2 })
  const { result } = await score([episode(0), episode(1)], [group])
  expect(sizes).toEqual([2, 2])
  expect(result).toEqual([{ kind: "scored", total: 0, parts: { rank: 0 } }, { kind: "scored", total: 1, parts: { rank: 1 } }])
})

test("samples: one advantage per rollout on each of its rows, ages and figures of the group", async () => {
  const forked = episode(1, { truncated: true, endedBy: "window", turns: 2, toolCalls: 3, toolFailures: 1, rows: [...episode(1).rows, ...episode(1).rows] })
  const scored = (one: Episode, total: number) => ({ episode: one, score: { kind: "scored" as const, total, parts: total > 1 ? { a: total, extra: 1 } : { a: total } } })
  const identity = { id: "g0", occurrence: 0, row: { id: "r", prompt: "p" }, startedAtMs: 5 }
  const group = buildSampleGroup(identity, [scored(episode(0), 1), scored(forked, 3)], { advantages: (rewards) => rewards.map((reward) => reward - 2), filterZeroSpread: true })
  expect(group).toMatchObject({
    rewardMean: 2, rewardSpread: 1, rewardParts: { a: 2, extra: 1 }, oldestVersion: 3, trainedTokens: 6, completionTokens: 4, truncatedShare: 0.5,
    episodes: { turns: 3, toolCalls: 3, toolFailures: 1, ends: { stop: 1, window: 1 } },
    samples: [{ id: "g0.0.1/0", advantage: -1 }, { id: "g0.1.1/0", advantage: 1, truncated: true }, { id: "g0.1.1/1", advantage: 1, weight: 1 }],
  })
})

test("advantages that are missing, unequal in number or not finite drop the group", () => {
  const scored = (total: number) => ({ episode: episode(0), score: { kind: "scored" as const, total, parts: { a: total } } })
  const identity = { id: "g0", occurrence: 0, row: { id: "r", prompt: "p" }, startedAtMs: 5 }
  for (const advantages of [() => null, () => [1], () => [1, Number.NaN]])
    expect(buildSampleGroup(identity, [scored(1), scored(2)], { advantages, filterZeroSpread: false })).toMatchObject({ kind: "failed", reason: "advantages_undefined" })
})

test("zero spread is filtered as the advantage rule sees it", () => {
  const scored = (total: number) => ({ episode: episode(0), score: { kind: "scored" as const, total, parts: { a: total } } })
  const identity = { id: "g0", occurrence: 0, row: { id: "r", prompt: "p" }, startedAtMs: 5 }
  const build = (rewards: readonly number[], filterZeroSpread: boolean) => buildSampleGroup(identity, rewards.map(scored), { advantages: (all) => all.map(() => 0), filterZeroSpread })
  expect(build([1, 1.000001], true)).toMatchObject({ kind: "failed", reason: "zero_spread" })
  expect(build([1, 1], true)).toMatchObject({ kind: "failed", reason: "zero_spread" })
  expect(build([1, 1], false)).toMatchObject({ samples: [{ advantage: 0 }, { advantage: 0 }] })
})

test("spread is not a matter of rounding", () => {
  expect(hasZeroSpread([0.1 + 0.2, 0.3, 0.3])).toBe(true)
  expect(hasZeroSpread([0, 1e-6])).toBe(false)
  expect(hasZeroSpread([1e9, 1e9 + 0.1])).toBe(true)
})

test("a reward that aborts: retried first, then scoring throws with its name, the row and its words; a stop of the run is no such failure", async () => {
  let calls = 0
  const judge = (fails: number): RewardLike => () => {
    if (calls++ < fails) throw new Error("no route to the judge")
    return 1
  }
  const { result } = await score([episode(0)], [entry("judge", judge(2), { maxAttempts: 3, onFailure: "abort" })])
  expect(result).toMatchObject([{ kind: "scored" }])
  calls = 0
  const aborting = entry("judge", judge(9), { maxAttempts: 2, onFailure: "abort" })
  const failure = await score([episode(0)], [entry("fine", () => 1), aborting]).catch((error: unknown) => error)
  expect(failure).toMatchObject({ code: "reward_failed", details: { reward: "judge", row: "r", rolloutId: "g0.0.1" } })
  expect((failure as Error).message).toBe("reward judge failed after 2 tries on row r: judge: threw no route to the judge")
  expect(calls).toBe(2)
  const stopped = await score([episode(0)], [aborting], AbortSignal.abort(new Error("stop")))
  expect(stopped.result).toMatchObject([{ kind: "failed" }])
})
