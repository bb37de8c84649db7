import { describe, expect, test } from "bun:test"
import type { JsonValue } from "./json.ts"
import { loadConfig } from "./load.ts"
import { issuesOf, minimalFlags, sourcesOf } from "./testing.ts"

const load = async (given: { flags?: string[]; env?: Record<string, string> }) =>
  (await loadConfig(sourcesOf({ flags: [...minimalFlags, ...(given.flags ?? [])], env: given.env ?? {} }))).config

const issues = async (given: { flags?: string[]; env?: Record<string, string> }) => (await issuesOf(() => load(given))).issues

describe("environment values", () => {
  // C154
  test.each([
    ["COHORT__TRAIN__STEPS", "", 100],
    ["COHORT__TRAIN__LEARNING_RATE", "", 1e-6],
    ["COHORT__TRAIN__LEARNING_RATE", "1e-5", 1e-5],
    ["COHORT__TRAIN__MAX_GRAD_NORM", "1e3", 1000],
    ["COHORT__TRAIN__MAX_GRAD_NORM", ".5", 0.5],
    ["COHORT__TRAIN__STEPS", "20", 20],
    ["COHORT__DATA__SHUFFLE", "false", false],
    ["COHORT__DATA__SHUFFLE", "true", true],
    ["COHORT__DATA__SHUFFLE", "", true],
    ["COHORT__TRAIN__TOKEN_BUDGET", "auto", "auto"],
    ["COHORT__TRAIN__TOKEN_BUDGET", "512", 512],
    ["COHORT__TRAIN__STOP_AT_REWARD", "-0.5", -0.5],
  ])("%s=%p is %p", async (name, text, expected) => {
    const config = await load({ env: { [name]: text } })
    const found = { ...config.train, ...config.data }
    const key = name.split("__")[2]!.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
    expect(Reflect.get(found, key)).toBe(expected)
  })

  test.each([
    ["COHORT__TRAIN__STEPS", " "],
    ["COHORT__TRAIN__STEPS", "0x10"],
    ["COHORT__TRAIN__STEPS", "1e3"],
    ["COHORT__TRAIN__STEPS", "1_000"],
    ["COHORT__TRAIN__STEPS", "8abc"],
    ["COHORT__TRAIN__STEPS", "1.5"],
    ["COHORT__TRAIN__STEPS", "+"],
    ["COHORT__TRAIN__STEPS", "99999999999999999999"],
    ["COHORT__TRAIN__LEARNING_RATE", " "],
    ["COHORT__TRAIN__LEARNING_RATE", "0x10"],
    ["COHORT__TRAIN__LEARNING_RATE", "1_000"],
    ["COHORT__TRAIN__LEARNING_RATE", "8abc"],
    ["COHORT__TRAIN__LEARNING_RATE", "Infinity"],
    ["COHORT__TRAIN__LEARNING_RATE", "NaN"],
    ["COHORT__TRAIN__LEARNING_RATE", "1e999"],
    ["COHORT__TRAIN__TOKEN_BUDGET", "1e3"],
    ["COHORT__TRAIN__TOKEN_BUDGET", "automatic"],
    ["COHORT__DATA__SHUFFLE", " "],
    ["COHORT__DATA__SHUFFLE", "False"],
    ["COHORT__DATA__SHUFFLE", "0"],
    ["COHORT__DATA__SHUFFLE", "no"],
    ["COHORT__NAME", " "],
    ["COHORT__DATA__OPTIONS", "x"],
    ["COHORT__DATA__OPTIONS", "{x}"],
    ["COHORT__REWARDS", '{"use": "math", "weight": 2}'],
    ["COHORT__REWARDS", "[math]"],
  ])("%s=%p is refused", async (name, text) => {
    const found = await issues({ env: { [name]: text } })
    expect(found).toHaveLength(1)
    expect(found[0]?.origin).toBe(`env ${name}`)
    expect(found[0]?.kind).toBe("invalid")
  })

  test("an unknown variable is answered with the variable that was meant", async () => {
    const found = await issues({ env: { COHORT__TRAIN__LERNING_RATE: "1", COHORT__LEARNING_RATE: "1", COHORT__TRAIN: "1", COHORT__: "1" } })
    expect(found.map(({ path, fix }) => [path, fix])).toEqual([
      ["", undefined],
      ["learningRate", "Its variable is COHORT__TRAIN__LEARNING_RATE."],
      ["train", undefined],
      ["train.lerningRate", "Its variable is COHORT__TRAIN__LEARNING_RATE."],
    ])
  })
})

describe("flags", () => {
  test.each<[string[], string, JsonValue]>([
    [["--data.shuffle"], "data.shuffle", true],
    [["--no-data.shuffle"], "data.shuffle", false],
    [["--data.shuffle", "false"], "data.shuffle", false],
    [["--data.shuffle=false"], "data.shuffle", false],
    [["--inference.colocated", "--seed", "3"], "inference.colocated", true],
    [["--train.learningRate", "1e-5"], "train.learningRate", 1e-5],
    [["--train.stopAtReward", "-1"], "train.stopAtReward", -1],
    [["--data.evalSource=a=b"], "data.evalSource", "a=b"],
    [["--plugins", "a,b"], "plugins", ["a", "b"]],
    [["--plugins", "a, b"], "plugins", ["a", "b"]],
    [["--plugins", '["a,b"]'], "plugins", ["a,b"]],
    [["--plugins", "a", "--plugins", "b"], "plugins", ["a", "b"]],
    [["--plugins="], "plugins", []],
    [["--data.options", '{"a": [1]}'], "data.options", { a: [1] }],
    [["--data.options.a", "1", "--data.options.b.c", "true", "--data.options.d", "007", "--data.options.e", '"1"'], "data.options", { a: 1, b: { c: true }, d: "007", e: "1" }],
    [["--rollout.chatTemplateArgs.enable_thinking", "false"], "rollout.chatTemplateArgs", { enable_thinking: false }],
    [["--seed", "3", "--seed", "3"], "seed", 3],
  ])("%p", async (flags, path, expected) => {
    let at: unknown = await load({ flags })
    for (const name of path.split(".")) at = Reflect.get(at as object, name) // sections
    expect(at).toEqual(expected)
  })

  test("JSON for a reward with options", async () => {
    const config = await load({ flags: ["--rewards", '["math", {"use": "length", "weight": -0.5}]'] })
    expect(config.rewards.map(({ use, weight }) => [use, weight])).toEqual([["math", 1], ["length", -0.5]])
  })

  test.each<[string[], string, string]>([
    [["--seed", "1", "--seed", "2"], "seed", "given twice"],
    [["--data.shuffle", "--no-data.shuffle"], "data.shuffle", "given twice"],
    [["--train.steps"], "train.steps", "a value after the flag"],
    [["--train.steps", "--seed", "1"], "train.steps", "a value after the flag"],
    [["--train.steps="], "train.steps", "integer >= 1"],
    [["stray"], "", "not a flag"],
    [["--"], "", "not a flag"],
    [["-x"], "", "not a flag"],
    [["--train", "x"], "train", "a section"],
    [["--no-train.steps"], "train.steps", "a setting that is true or false after --no-"],
    [["--no-data.shuffle=true"], "data.shuffle", "no value after --no-"],
    [["--train.steps.x", "1"], "train.steps.x", "unknown flag"],
    [["--train.learning-rate", "1"], "train.learning-rate", "unknown flag"],
    [["--data.options..x", "1"], "data.options..x", "unknown flag"],
  ])("%p is refused", async (flags, path, expected) => {
    const found = await issues({ flags })
    expect(found.map((issue) => issue.path)).toEqual([path])
    expect(found[0]?.expected).toContain(expected)
  })
})
