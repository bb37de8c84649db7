import { expect, test } from "bun:test"
import { createRegistry, systemHost } from "@cohort/plugin"
import { conformance, fakeSetupContext, testReward } from "@cohort/plugin/testing"
import plugin, { brevity } from "./brevity.ts"
import manifest from "./package.json"

const options = { target: 10, limit: 20 }

test("conforms to the plugin contract", async () => {
  expect(await conformance(plugin, { manifest, options: { "rewards.brevity": options } })).toEqual({ problems: [], ran: ["rewards.brevity"] })
})

test("falls from 1 at the target to 0 at the limit", async () => {
  const of = (count: number, expected: number | null, finishReason: "stop" | "length" = "stop") => ({ name: `${count} ${finishReason}`, text: "x", completionIds: new Int32Array(count), finishReason, expect: expected })
  expect(await testReward(brevity, [of(0, 1), of(10, 1), of(15, 0.5), of(20, 0), of(99, 0), of(99, null, "length")], options)).toEqual([])
  expect(await testReward(brevity, [of(15, 1)], options)).toHaveLength(1)
})

test("a config can name it by its path", async () => {
  const registry = createRegistry(systemHost())
  const setup = { ...fakeSetupContext(), projectDir: import.meta.dir }
  const { name, reward } = await registry.reward("./brevity.ts", setup, { options, askedBy: "rewards[0].use" })
  expect(name).toBe("brevity")
  expect(reward.score).toBeFunction()
  await expect(registry.reward("./brevity.ts", setup, { options: { target: 20, limit: 10 }, askedBy: "rewards[0].use" })).rejects.toThrow("target must be below limit")
})
