import { expect, test } from "bun:test"
import type { RewardLike, RowSource } from "@cohort/env"
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { defineEnvironment, definePlugin, defineReward, defineTools, type RewardDefinition } from "../define.ts"
import { conformance } from "./conformance.ts"
import { testReward } from "./reward-cases.ts"

const pluginOf = (reward: Partial<RewardDefinition> & { setup: () => RewardLike }) =>
  definePlugin({ name: "p", version: "1.0.0", apiVersion: 1, rewards: { r: defineReward({ summary: "s", ...reward }) } })
const problemsOf = async (reward: Parameters<typeof pluginOf>[0]) => (await conformance(pluginOf(reward), { scoreMs: 2_000 })).problems.join("\n")

test("a good reward has no problems", async () => {
  expect(await conformance(pluginOf({ setup: () => () => 1, deterministic: true, range: [0, 1] }))).toEqual({ problems: [], ran: ["rewards.r"] })
  expect((await conformance(pluginOf({ setup: () => ({ scoreGroup: (rollouts) => rollouts.map(() => 1) }) }))).problems).toEqual([])
})

test("each rule is caught when it is broken", async () => {
  expect(await problemsOf({ setup: () => (rollout) => JSON.parse(rollout.text) as number })).toContain('throws on "" (string)')
  expect(await problemsOf({ setup: () => (rollout) => Number(rollout.text.trim() || "x") })).toContain("returned NaN")
  expect(await problemsOf({ range: [0, 1], setup: () => (rollout) => rollout.text.length })).toContain("outside its range [0, 1]")
  let calls = 0
  expect(await problemsOf({ deterministic: true, setup: () => () => (calls += 1) })).toContain("says it is deterministic")
  expect(await problemsOf({ needs: ["answer"], setup: () => () => 0 })).toContain("where the column answer, which it needs, is missing")
  expect(await problemsOf({ setup: () => ({ scoreGroup: () => [] }) })).toContain("returned [] (array) for 1 rollout")
  let closed = 0
  expect(await problemsOf({ setup: () => ({ score: () => 1, close: () => { if (closed++ > 0) throw new Error("closed twice") } }) })).toContain("closed twice")
  expect(await problemsOf({ setup: () => { throw new Error("no key") } })).toContain("cannot be set up: no key")
  const slow = await conformance(pluginOf({ setup: () => () => 1 }), { scoreMs: 5, now: () => (calls += 10) })
  expect(slow.problems[0]).toContain("takes 10 ms")
})

test("tools that nobody can know, and an environment that breaks at its reset, are caught", async () => {
  const plugin = definePlugin({
    name: "t", version: "1", apiVersion: 1,
    tools: { good: defineTools({ summary: "s", setup: () => ({ add: { description: "Adds.", run: () => 1 } }) }), mute: defineTools({ summary: "s", setup: () => ({ add: { description: " ", run: () => 1 } }) }), empty: defineTools({ summary: "s", setup: () => ({}) }) },
    environments: { door: defineEnvironment({ summary: "s", setup: () => () => ({ reset: () => undefined }) }), stuck: defineEnvironment({ summary: "s", setup: () => () => ({ reset: () => { throw new Error("stuck") } }) }) },
  })
  const { problems, ran } = await conformance(plugin)
  expect(problems).toEqual([
    "environments.stuck fails at reset or close of an episode: stuck",
    "tools.mute add has no description",
    "tools.empty setup returns no tools: it holds no tool",
  ])
  expect(ran).toContain("tools.good")
})

test("a schema that lets typos pass is caught", async () => {
  const loose: StandardSchemaV1<unknown, unknown> = { "~standard": { version: 1, vendor: "t", validate: (value) => ({ value }) } }
  const throwing: StandardSchemaV1<unknown, unknown> = { "~standard": { version: 1, vendor: "t", validate: () => { throw new TypeError("boom") } } }
  expect(await problemsOf({ options: loose, setup: () => () => 1 })).toContain("an unknown key is accepted")
  expect(await problemsOf({ options: throwing, setup: () => () => 1 })).toContain("the schema throws")
})

test("a task set that leaks, changes or runs over its end is caught", async () => {
  const source = (at: (index: number) => string, bounded = true): RowSource => ({
    name: "s",
    size: 3,
    at(index) {
      if (bounded && !(Number.isInteger(index) && index >= 0 && index < 3)) throw new RangeError("outside")
      return { id: String(index), prompt: at(index) }
    },
  })
  const problems = async (train: RowSource, heldOut: RowSource) => {
    const environment = defineEnvironment({ summary: "s", setup: () => ({ train, heldOut }) })
    return (await conformance(definePlugin({ name: "e", version: "1", apiVersion: 1, environments: { environment } }))).problems.join("\n")
  }
  const [train, heldOut] = [source((index) => `t${index}`), source((index) => `h${index}`)]
  expect(await problems(train, heldOut)).toBe("")
  expect(await problems(train, source((index) => (index === 2 ? "t0" : `h${index}`)))).toContain('held-out prompt "t0" in train too')
  let calls = 0
  expect(await problems(source(() => `t${(calls += 1)}`), heldOut)).toContain("differs between two setups")
  expect(await problems(source((index) => `t${index}`, false), heldOut)).toContain("train.at(3) gives a row; the size is 3")
})

test("testReward lists what came out otherwise, with the reason", async () => {
  const reward = defineReward({ summary: "s", setup: () => (rollout) => (rollout.text === "x" ? { kind: "ok", value: 1, reason: "it is x" } : null) })
  const cases = [{ text: "x", expect: 1 }, { text: "y", expect: null }, { text: "x", expect: 0 }, { name: "second", text: "y", expect: "failed" as const }]
  expect(await testReward(reward, cases)).toEqual(['"x": expected 0, got 1 (it is x)', "second: expected failed, got null"])
})
