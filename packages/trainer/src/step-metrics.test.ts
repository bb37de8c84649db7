import { expect, test } from "bun:test"
import { batchMetricDefinitions } from "@cohort/batching"
import { holds, parseCondition } from "@cohort/config"
import { EMPTY_METRICS, metricDefinitions } from "@cohort/loss"
import { type Freshness, freshnessOf, type SampleGroup } from "@cohort/rollout"
import { type StepFigures, stepMetricDefinitions, stepMetrics } from "./step-metrics.ts"

/** A group of two rollouts of four trained tokens, made by `versions`. */
function groupOf(occurrence: number, versions: readonly [number, number], rewards: readonly [number, number]): SampleGroup {
  const mean = (rewards[0] + rewards[1]) / 2
  return {
    id: `g${occurrence}`, occurrence, row: { id: "r", prompt: "p" }, rewards, rolloutIds: [`g${occurrence}.0.1`, `g${occurrence}.1.1`], memberParts: rewards.map((exact) => ({ exact })), rewardMean: mean, rewardParts: { exact: mean },
    rewardSpread: Math.abs(rewards[0] - mean), oldestVersion: Math.min(...versions), trainedTokens: 8, completionTokens: 8, truncatedShare: 0.5, repetition: 0.25, startedAtMs: 0, queuedAtMs: 1,
    episodes: { turns: 3, toolCalls: 4 * occurrence, toolFailures: occurrence, ends: occurrence === 0 ? { stop: 2 } : { stop: 1, window: 1 } },
    samples: versions.map((version, member) => ({
      id: `g${occurrence}.${member}.1/0`, groupId: `g${occurrence}`, rolloutId: `g${occurrence}.${member}.1`, tokenIds: new Int32Array(5), lossMask: Uint8Array.of(0, 1, 1, 1, 1),
      behaviorLogProbs: new Float32Array(5), versions: Int32Array.of(-1, version, version, version, version), advantage: rewards[member]! - mean, weight: 1, truncated: false,
    })),
  }
}

const groups = [groupOf(0, [7, 5], [0, 1]), groupOf(1, [7, 7], [1, 1])]
const waiting = [groupOf(2, [8, 6], [0, 1])]
const freshness: Freshness = freshnessOf(groups.flatMap(({ samples }) => samples), 7)
const figures: StepFigures = {
  version: 7, groups, freshness, queued: freshnessOf(waiting.flatMap(({ samples }) => samples), 8),
  metrics: { ...EMPTY_METRICS, tokens: 16 },
  batch: { batches: 1, samples: 4, groups: 2, trainedTokens: 16, forwardedTokens: 20, realTokens: 34, paddedTokens: 40, imbalance: 1, droppedOverBudget: 1 },
  account: { compute: 1, weightSync: 2, generation: 3, rewards: 4, tools: 5, pacing: 6, backPressure: 7, paused: 8, between: 9, other: 10 },
  bias: { ended: 100, trained: 90, length: 0.9, duration: 0.8, durationP90: 0.7, environments: { shell: 1.1 }, alarm: null },
  drops: { groups: { zero_spread: 3, surplus: 2 }, rollouts: { reward_failed: 1 } },
  klPerCompletion: 0.1, gradNorm: 1, learningRate: 1e-6, samples: 4,
  status: { state: "running", heartbeatAtMs: 0, groupsInFlight: 4, rolloutsInFlight: 8, queueDepth: 1, lastError: undefined },
  seconds: 10, waitSeconds: 5, trainSeconds: 3, syncSeconds: 2,
}

test("ages are weighted by trained tokens, for what was trained and for what waits, with the share of each age", () => {
  const metrics = stepMetrics(figures)
  expect(metrics).toMatchObject({
    version: 7, "age/mean": 0.5, "age/p50": 0, "age/p95": 2, "age/p99": 2, "age/max": 2, "age/share_0": 0.75, "age/share_2": 0.25,
    "queue/depth": 1, "queue/age_mean": 1, "queue/age_p50": 0, "queue/age_p95": 2, "queue/age_p99": 2, "queue/age_max": 2, "queue/age_share_0": 0.5, "queue/age_share_2": 0.5,
  })
})

test("what the batches held: completions, prompts, and shares of what was computed", () => {
  expect(stepMetrics(figures)).toMatchObject({
    "batch/completions": 4, "batch/prompts": 2, "batch/trained_share": 0.4, "batch/forwarded_share": 0.5, "batch/pad_share": 0.5, "batch/packing_ratio": 1.5, "batch/row_imbalance": 1, "batch/dropped": 1,
  })
})

test("a limit may be set on the figures of one age", () => {
  const metrics = stepMetrics({ ...figures, metrics: { ...figures.metrics, ageTokens4: 8, ageClipSum4: 2, ageKlSum4: 0.8 } })
  expect(metrics).toMatchObject({ "clip/region_age_4_up": 0.25, "kl/behavior_age_4_up": 0.1 })
  expect(holds(parseCondition("clip/region_age_4_up <= 0.2"), metrics)).toBe(false)
  expect(holds(parseCondition("kl/behavior_age_4_up <= 0.2"), metrics)).toBe(true)
  expect(holds(parseCondition("kl/behavior_age_2 <= 0.2"), metrics)).toBeUndefined()
})

test("what was dropped counts by reason, what did not occur is absent", () => {
  expect(stepMetrics(figures)).toMatchObject({ "dropped/zero_spread": 3, "dropped/surplus": 2, "failed/reward_failed": 1, "reward/zero_spread": 0.5, repetition: 0.25, truncated: 0.5 })
  const quiet = stepMetrics({ ...figures, drops: { groups: {}, rollouts: {} }, bias: undefined, queued: freshnessOf([], 8) })
  expect(Object.keys(quiet).filter((name) => /^(dropped|failed|bias|queue\/age)/.test(name))).toEqual([])
})

test("how rollouts went: their turns, why they ended, their calls", () => {
  const metrics = stepMetrics(figures)
  expect(metrics).toMatchObject({ turns: 1.5, "ended/stop": 0.75, "ended/window": 0.25, "tools/calls": 1, "tools/failures": 0.25 })
  const plain = stepMetrics({ ...figures, groups: [groups[0]!] })
  expect(Object.keys(plain).filter((name) => /^(ended|tools)/.test(name))).toEqual(["ended/stop"])
})

test("every figure has its definition, and every definition its figure", () => {
  const documented = stepMetricDefinitions.flatMap(({ name }) => name.split(", "))
  const patterns = documented.map((name) => ({ name, pattern: new RegExp(`^${name.replaceAll(/<\w+>/g, "[^/]+")}$`) }))
  const own = Object.keys(stepMetrics(figures)).filter((name) => ![...batchMetricDefinitions, ...metricDefinitions].some((definition) => definition.name === name))
  expect(own.filter((name) => !patterns.some(({ pattern }) => pattern.test(name)))).toEqual([])
  expect(patterns.filter(({ pattern }) => !own.some((name) => pattern.test(name))).map(({ name }) => name)).toEqual([])
})
