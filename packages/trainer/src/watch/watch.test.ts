import { expect, test } from "bun:test"
import { resolveConfig, type RunConfigInput } from "@cohort/config"
import type { Throttle } from "@cohort/rollout"
import { createWatch, type StepCallback } from "./watch.ts"

function watchOf(input: Partial<RunConfigInput>, callbacks: readonly StepCallback[] = []) {
  const config = resolveConfig({ model: { path: "m" }, data: { source: "d" }, ...input })
  const throttle: Throttle = { maxAhead: Number.POSITIVE_INFINITY }
  return { throttle, watch: createWatch({ config, groupsPerStep: 4, throttle, callbacks }) }
}

test("the default guardrail stops a run whose completions are all cut and worth nothing, after five steps in a row", async () => {
  const { watch } = watchOf({})
  const collapsed = { truncated: 0.95, "reward/mean": 0 }
  for (let step = 1; step <= 4; step++) expect((await watch.check(step, collapsed)).stop).toBeUndefined()
  expect((await watch.check(5, { truncated: 0.2, "reward/mean": 0 })).stop).toBeUndefined()
  for (let step = 6; step <= 9; step++) expect((await watch.check(step, collapsed)).stop).toBeUndefined()
  expect((await watch.check(10, collapsed)).stop).toBe("truncated >= 0.9 and reward/mean <= 0 for 5 steps (truncated is 0.95, reward/mean is 0)")
})

test("a step without the metric neither counts nor ends a row", async () => {
  const { watch } = watchOf({ guardrails: [{ when: "entropy <= 0.01", forSteps: 2 }] })
  expect((await watch.check(1, { entropy: 0 })).stop).toBeUndefined()
  expect((await watch.check(2, {})).stop).toBeUndefined()
  expect((await watch.check(3, { entropy: 0 })).stop).toContain("entropy is 0")
})

test("a warning is said once per row", async () => {
  const { watch } = watchOf({ guardrails: [{ when: "kl/behavior > 0.5", forSteps: 1, action: "warn" }] })
  const said: number[] = []
  for (const kl of [1, 2, 0, 3, 3]) said.push((await watch.check(0, { "kl/behavior": kl })).warnings.length)
  expect(said).toEqual([1, 0, 0, 1, 0])
})

test("freshness limits: throttle narrows step by step down to one step's groups and widens again; sync now; stop", async () => {
  const { watch, throttle } = watchOf({ staleness: { maxSteps: 3, slo: [{ keep: "age.p95 <= 2", action: "throttle" }, { keep: "age.max <= 9", action: "stop", forSteps: 2 }, { keep: "queue.age_p95 <= 1", action: "syncNow" }] } })
  const stale = { "age/p95": 3, "age/max": 3, "queue/age_p95": 0 }
  const widths: number[] = []
  for (let step = 0; step < 8; step++) {
    expect((await watch.check(step, stale)).warnings).toEqual(step === 0 ? ["age.p95 <= 2 is not kept: age/p95 is 3; fewer groups may run ahead"] : [])
    widths.push(throttle.maxAhead)
  }
  expect(widths).toEqual([12, 9, 6, 4, 4, 4, 4, 4])
  for (let step = 0; step < 20; step++) await watch.check(step, { "age/p95": 1, "age/max": 1, "queue/age_p95": 0 })
  expect(throttle.maxAhead).toBe(16)
  expect(await watch.check(0, { "age/p95": 1, "age/max": 1, "queue/age_p95": 2 })).toMatchObject({ syncNow: true, stop: undefined })
  await watch.check(0, { "age/p95": 1, "age/max": 10 })
  expect((await watch.check(0, { "age/p95": 1, "age/max": 10 })).stop).toBe("age.max <= 9 is not kept: age/max is 10")
})

test.each([
  ["completions that are cut and worth nothing", "truncated >= 0.9 and reward/mean <= 0", { truncated: 0.95, "reward/mean": 0 }, { truncated: 0.95, "reward/mean": 0.1 }],
  ["groups that all score the same", "reward/zero_spread >= 1", { "reward/zero_spread": 1 }, { "reward/zero_spread": 0.99 }],
  ["an entropy floor", "entropy < 0.05", { entropy: 0.04 }, { entropy: 0.05 }],
  ["a KL ceiling", "kl/behavior > 0.2", { "kl/behavior": 0.3 }, { "kl/behavior": 0.2 }],
  ["repetition", "repetition >= 0.6", { repetition: 0.8 }, { repetition: 0.3 }],
] as const)("guardrail: %s, for as many steps in a row as it says", async (_, when, collapsed, healthy) => {
  const { watch } = watchOf({ guardrails: [{ when, forSteps: 2 }] })
  const stops: (string | undefined)[] = []
  for (const metrics of [collapsed, healthy, collapsed, collapsed]) stops.push((await watch.check(0, metrics)).stop)
  expect(stops).toEqual([undefined, undefined, undefined, expect.stringContaining(`${when} for 2 steps`)])
})

test("what is watched and never comes is told once, by name", async () => {
  const { watch } = watchOf({ guardrails: [{ when: "reward.meen <= 0", action: "warn" }], staleness: { slo: [{ keep: "age.p95 <= 3" }] } })
  const said: string[] = []
  for (let step = 1; step <= 12; step++) said.push(...(await watch.check(step, { "age/p95": 1, "reward/mean": 1 })).warnings)
  expect(said).toEqual(['"reward.meen <= 0" watches reward/meen, which no step has had so far: look at its name'])
})

test("an alarm of the bias monitor is a warning, once while it lasts", async () => {
  const alarms = [null, "slow prompts are trained too rarely", "slow prompts are trained too rarely", null, "fast ones are"]
  const config = resolveConfig({ model: { path: "m" }, data: { source: "d" } })
  const report = () => ({ ended: 0, trained: 0, length: null, duration: null, durationP90: null, environments: {}, alarm: alarms.shift() ?? null })
  const watch = createWatch({ config, groupsPerStep: 4, throttle: { maxAhead: 9 }, bias: { report } })
  const said: string[] = []
  for (let step = 1; step <= 5; step++) said.push(...(await watch.check(step, {})).warnings)
  expect(said).toEqual(["slow prompts are trained too rarely", "fast ones are"])
})

test("a callback of the user may stop the run", async () => {
  const { watch } = watchOf({}, [(step, metrics) => (metrics["reward/exact"] === 1 && step > 1 ? { stop: "solved" } : undefined)])
  expect((await watch.check(1, { "reward/exact": 1 })).stop).toBeUndefined()
  expect((await watch.check(2, { "reward/exact": 1 })).stop).toBe("solved")
})
