import { describe, expect, test } from "bun:test"
import type { StandardSchemaV1 } from "@standard-schema/spec"
import { brandOf } from "./brand.ts"
import { checkPlugin, pluginProblems } from "./check.ts"
import { definePlugin, defineReward, type Plugin } from "./define.ts"
import { manifestMismatches, manifestProblems } from "./manifest.ts"

const limitSchema: StandardSchemaV1<unknown, { limit: number }> = { "~standard": { version: 1, vendor: "test", validate: () => ({ value: { limit: 3 } }) } }
const short = defineReward({ summary: "Short", options: limitSchema, needs: ({ limit }) => [`column${limit}`], setup: ({ limit }) => (rollout) => (rollout.text.length <= limit ? 1 : 0) })
const good = definePlugin({ name: "good", version: "1.0.0", apiVersion: 1, rewards: { short } })

test("definitions carry their brand and keep their fields", () => {
  expect(brandOf(good)).toEqual({ kind: "plugin", apiVersion: 1 })
  expect(brandOf(short)).toEqual({ kind: "reward", apiVersion: 1 })
  expect(pluginProblems(good)).toEqual([])
  expect(checkPlugin(good, "here")).toBe(good)
  expect(brandOf({ name: "good" })).toBeUndefined()
})

describe("a bad plugin", () => {
  test("gets all its problems in one error", () => {
    const bad = {
      name: "has space",
      apiVersion: 9,
      reward: {},
      rewards: { first: { summary: "", setup: 1, options: {}, needs: [1], range: [1, 0], deterministic: "yes", score: () => 1 }, "a/b": short },
    } as unknown as Plugin
    const problems = pluginProblems(bad)
    const text = problems.join("\n")
    for (const part of [
      "no brand", "name:", "version:", "written for 9, this Cohort runs 1", 'reward: unknown key. Did you mean "rewards"?', "make it with defineReward", "first.summary", "first.setup",
      "first.options", "first.needs", "first.range", "first.deterministic", "first.score: unknown key.", "rewards.a/b",
    ])
      expect(text).toContain(part)
    expect(() => checkPlugin(bad, "the package x")).toThrow("the package x is not a usable plugin")
    try {
      checkPlugin(bad, "x")
    } catch (error) {
      expect(error).toMatchObject({ code: "plugin_invalid", details: { problems } })
    }
  })

  test.each([[undefined], [null], ["reward-math"], [() => 1]])("%p is named for what it is", (value) => {
    expect(pluginProblems(value)).toHaveLength(1)
  })

  test("may not be empty, and a bare reward must be wrapped", () => {
    expect(pluginProblems(definePlugin({ name: "n", version: "1", apiVersion: 1 }))).toEqual(["provides nothing: give at least one of rewards, environments, tools, trackers"])
    expect(pluginProblems(short)).toContain("is a reward; wrap it in definePlugin")
  })
})

describe("the package block", () => {
  const manifest = { name: "cohort-plugin-good", version: "1.0.0", keywords: ["cohort-plugin"], cohort: { apiVersion: 1, provides: ["reward:short"] } }

  test("is compared with the plugin", () => {
    expect(manifestMismatches(manifest, good)).toEqual([])
    expect(manifestMismatches({ ...manifest, keywords: [], version: "2.0.0", cohort: { apiVersion: 2, provides: [] } }, good)).toHaveLength(4)
    expect(manifestMismatches({}, good)).toHaveLength(2)
  })

  test("refuses another api version with both versions, and may be absent", () => {
    expect(manifestProblems({ cohort: { apiVersion: 2 } })).toEqual(['package.json "cohort".apiVersion: the plugin is written for 2, this Cohort runs 1'])
    expect(manifestProblems({})).toEqual([])
    expect(manifestProblems(undefined)).toEqual([])
  })
})
