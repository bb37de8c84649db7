import { expect, test } from "bun:test"
import fc from "fast-check"
import { accountOf, bottleneckOf, type StepTimes } from "./account.ts"

const group = (startedAtMs: number, generatedAtMs: number, queuedAtMs: number, rest: { toolMs?: number; blockedMs?: number; blockedBy?: "queue" | "policy" | "servers" | "paused" } = {}) => ({
  startedAtMs, queuedAtMs, timing: { generatedAtMs, toolMs: 0, blockedMs: 0, blockedBy: undefined, ...rest },
})

const times = (waits: StepTimes["waits"], rest: Partial<StepTimes> = {}): StepTimes => ({ fromMs: 0, startMs: 0, endMs: 10_000, waits, computeSeconds: 0, weightSyncSeconds: 0, ...rest })

test("a wait is laid over the group's generation, tools and rewards", () => {
  const account = accountOf(times([{ group: group(-2_000, 4_000, 6_000, { toolMs: 1_500 }), askedAtMs: 0, gotAtMs: 6_000 }]))
  // 4 s of the 6 s of generation, a quarter of them in tools; 2 s of scoring.
  expect(account).toMatchObject({ generation: 3, tools: 1, rewards: 2, other: 4, pacing: 0 })
})

test("what held a group up before it started is charged first", () => {
  const held = group(3_000, 5_000, 5_000, { blockedMs: 3_500, blockedBy: "queue" })
  expect(accountOf(times([{ group: held, askedAtMs: 0, gotAtMs: 5_000 }]))).toMatchObject({ backPressure: 3.5, generation: 1.5 })
  const policy = group(3_000, 5_000, 5_000, { blockedMs: 9_000, blockedBy: "policy" })
  expect(accountOf(times([{ group: policy, askedAtMs: 1_000, gotAtMs: 5_000 }]))).toMatchObject({ pacing: 4, generation: 0 })
})

test("groups that were ready cost nothing; checkpoints between steps have their own part", () => {
  const ready = group(-9_000, -5_000, -4_000)
  const account = accountOf(times([{ group: ready, askedAtMs: 0, gotAtMs: 0 }], { fromMs: -3_000, computeSeconds: 8, weightSyncSeconds: 1.5 }))
  expect(account).toMatchObject({ compute: 8, weightSync: 1.5, between: 3, other: 0.5, generation: 0 })
})

test("the parts always add up to the wall-clock", () => {
  const moment = fc.integer({ min: -5_000, max: 5_000 })
  fc.assert(
    fc.property(fc.array(fc.tuple(moment, fc.nat(4_000), fc.nat(2_000), fc.nat(3_000), fc.nat(9_000), fc.constantFrom("queue", "policy", "servers", "paused", undefined), fc.nat(4_000)), { maxLength: 5 }), (groups) => {
      let at = 0
      const waits = groups.map(([start, generate, score, toolMs, blockedMs, blockedBy, wait]) => {
        const asked = at
        at += wait
        return { group: group(start, start + generate, start + generate + score, { toolMs, blockedMs, ...(blockedBy === undefined ? {} : { blockedBy }) }), askedAtMs: asked, gotAtMs: at }
      })
      const account = accountOf(times(waits, { fromMs: -700, endMs: at + 3_000, computeSeconds: 2, weightSyncSeconds: 0.5 }))
      expect(Object.values(account).every((seconds) => seconds >= 0)).toBe(true)
      expect(Object.values(account).reduce((sum, seconds) => sum + seconds, 0)).toBeCloseTo((at + 3_700) / 1000, 6)
    }),
    { seed: 9, numRuns: 200 },
  )
})

test("names the largest part and says how much more generation would be needed", () => {
  const wait = { group: group(-1_000, 6_000, 6_000), askedAtMs: 0, gotAtMs: 6_000 }
  const found = bottleneckOf([accountOf(times([wait], { computeSeconds: 4 }))])
  expect(found).toMatchObject({ part: "generation", share: 0.6 })
  expect(found?.advice).toContain("about 2.5 times")
  expect(bottleneckOf([])).toBeNull()
})
