import { expect, test } from "bun:test"
import { conformance, fakeRewardContext, fakeRollout, fakeSetupContext, testReward } from "@cohort/plugin/testing"
import * as v from "valibot"
import manifest from "../package.json"
import plugin, { format, formatOptions } from "./plugin.ts"

test("conforms to the plugin contract", async () => {
  const options = { "rewards.format": { pattern: "^(a+)+$", sections: ["answer"], stop: true, maxCharacters: 40, minTokens: 1 } }
  expect(await conformance(plugin, { manifest, options })).toEqual({ problems: [], ran: ["rewards.format"] })
})

test("sections: each block once, in order, with nothing else", async () => {
  const cases = [
    { text: "<think>try 3</think><think>try 4</think><answer>9</answer>", expect: 0 },
    { text: "<think>try 3</think> so then <answer>9</answer>", expect: 0 },
    { text: "<think>try 3</think>\n<answer>9</answer>", expect: 1 },
    { text: " <think></think><answer></answer>\n", expect: 1 },
    { text: "<answer>9</answer><think>3</think>", expect: 0 },
    { text: "<think>a<answer>b</think>c</answer>", expect: 0 },
    { text: "</think><think> <answer>9</answer>", expect: 0 },
    { text: "<think>a</think><answer>9</answer> done", expect: 0 },
    { text: "well: <think>a</think><answer>9</answer>", expect: 0 },
    { text: "<think>a</think><answer>9", expect: 0 },
    { text: "", expect: 0 },
  ]
  expect(await testReward(format, cases, { sections: ["think", "answer"] })).toEqual([])
})

test("pattern: somewhere in the text, or all of it when anchored", async () => {
  expect(await testReward(format, [{ text: "so 12", expect: 1 }, { text: "so", expect: 0 }], { pattern: "\\d+" })).toEqual([])
  expect(await testReward(format, [{ text: "12", expect: 1 }, { text: "so 12", expect: 0 }, { text: "12\n", expect: 0 }], { pattern: "^\\d+$" })).toEqual([])
  expect(await testReward(format, [{ text: "A\nB", expect: 1 }], { pattern: "^b$", flags: "im" })).toEqual([])
})

test("stop: only what ended by itself", async () => {
  const cases = [{ text: "95", expect: 1 }, { text: "95", finishReason: "length" as const, expect: 0 }, { text: "95", finishReason: "abort" as const, expect: 0 }]
  expect(await testReward(format, cases, { stop: true })).toEqual([])
})

test("lengths: both ends count", async () => {
  expect(await testReward(format, ["a", "ab", "abc", "abcd"].map((text, index) => ({ text, expect: index === 1 || index === 2 ? 1 : 0 })), { minCharacters: 2, maxCharacters: 3 })).toEqual([])
  const ids = (count: number) => new Int32Array(count)
  const cases = [1, 2, 3, 4].map((count) => ({ text: "x", completionIds: ids(count), name: `${count}`, expect: count === 2 || count === 3 ? 1 : 0 }))
  expect(await testReward(format, cases, { minTokens: 2, maxTokens: 3 })).toEqual([])
})

test("the reason lists every broken rule", async () => {
  const score = (await format.setup(v.parse(formatOptions, { pattern: "x", stop: true, maxCharacters: 1 }), fakeSetupContext())) as Parameters<typeof runScore>[0]
  expect(await runScore(score)).toEqual({ kind: "ok", value: 0, reason: "the pattern does not match; it ended by length, not by itself; 2 characters, more than 1" })
})

test("options that check nothing, or cannot hold, are refused", () => {
  expect(() => format.setup(v.parse(formatOptions, {}), fakeSetupContext())).toThrow("no rule to check")
  expect(() => format.setup(v.parse(formatOptions, { stop: false }), fakeSetupContext())).toThrow("no rule to check")
  expect(() => format.setup(v.parse(formatOptions, { pattern: "(a)\\1" }), fakeSetupContext())).toThrow("back-reference")
  for (const wrong of [{ flags: "g" }, { flags: "ii" }, { sections: ["a b"] }, { minTokens: 3, maxTokens: 2 }, { minCharacters: 3, maxCharacters: 2 }, { maxTokens: -1 }])
    expect(v.safeParse(formatOptions, wrong).success).toBe(false)
})

function runScore(score: (rollout: ReturnType<typeof fakeRollout>, ctx: ReturnType<typeof fakeRewardContext>) => unknown): unknown {
  return score(fakeRollout({ text: "ab", finishReason: "length" }), fakeRewardContext())
}
