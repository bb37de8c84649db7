import { describe, expect, test } from "bun:test"
import { isCohortError } from "@cohort/errors"
import { runConfigJsonSchema } from "./json-schema.ts"
import { configKeys } from "./keys.ts"
import { resolveConfig } from "./load.ts"
import { configMarkdown } from "./markdown.ts"
import { checkResume, configDiff, RESUME_FIXED } from "./resume.ts"
import { minimal } from "./testing.ts"
import { promptsPerStep, tokenBudget } from "./token-budget.ts"
import { nodeAt } from "./tree.ts"
import { configWarnings } from "./warning.ts"

describe("keys, schema and page", () => {
  test("every key has a doc line, a type, a flag and a variable of its own", () => {
    const keys = configKeys()
    expect(keys.length).toBeGreaterThan(70)
    for (const key of keys) {
      expect(key.doc.length).toBeGreaterThan(5)
      expect(key.doc).not.toEndWith(".")
      expect(key.flag).toBe(`--${key.path}`)
    }
    expect(new Set(keys.map((key) => key.env)).size).toBe(keys.length)
    expect(keys.filter((key) => key.required).map((key) => key.path)).toEqual(["model.path", "data.source", "environment.use"])
    expect(keys.find((key) => key.path === "train.learningRate")).toEqual({
      path: "train.learningRate", type: "number > 0", default: 1e-6, required: false, doc: "Peak learning rate of AdamW",
      flag: "--train.learningRate", env: "COHORT__TRAIN__LEARNING_RATE",
    })
    // A variable of the environment is split at two underscores, so no name may hold two.
    expect(keys.every((key) => key.env.split("__").length === key.path.split(".").length + 1)).toBe(true)
  })

  test("the JSON Schema has bounds, defaults and doc lines, and refuses unknown keys", () => {
    const schema = JSON.parse(JSON.stringify(runConfigJsonSchema()))
    expect(schema.additionalProperties).toBe(false)
    expect(schema.required).toEqual(["model", "data"])
    expect(schema.properties.$schema.type).toBe("string")
    expect(schema.properties.rollout.properties.groupSize).toEqual({ type: "integer", minimum: 2, default: 8, description: expect.any(String) })
    expect(schema.properties.train.properties.tokenBudget.anyOf).toEqual([{ const: "auto" }, { type: "integer", minimum: 1 }])
    expect(schema.properties.rewards.items.anyOf.map((item: { type: string }) => item.type)).toEqual(["string", "object"])
    expect(JSON.stringify(schema)).not.toContain("e+308")
    interface Node { readonly properties?: Readonly<Record<string, Node>> }
    const pathsOf = ({ properties = {} }: Node): string[] =>
      Object.entries(properties).flatMap(([name, child]) => (child.properties === undefined ? [name] : pathsOf(child).map((key) => `${name}.${key}`)))
    const paths = pathsOf(schema as Node)
    expect(paths.filter((path) => path !== "$schema")).toEqual(configKeys().map((key) => key.path))
  })

  test("docs/config.md is up to date (bun run docs)", async () => {
    expect(await Bun.file(new URL("../../../docs/config.md", import.meta.url)).text()).toBe(configMarkdown())
  })
})

describe("resuming", () => {
  const base = resolveConfig({ ...minimal, rewards: [{ use: "math", options: { a: 1, b: 2 } }], data: { source: "env-x", options: { digits: 2 } } })

  test("a diff lists what differs, with both sides", () => {
    const other = resolveConfig({ ...base, train: { ...base.train, steps: 7, maxSeconds: 9 }, environment: { use: "e" }, data: { source: "env-x", options: { digits: 3 } } })
    expect(configDiff(base, other)).toEqual([
      { path: "data.options.digits", before: 2, after: 3 },
      { path: "environment.use", after: "e" },
      { path: "environment.options", after: {} },
      { path: "train.steps", before: 100, after: 7 },
      { path: "train.maxSeconds", after: 9 },
    ])
    expect(configDiff(other, base).find(({ path }) => path === "train.maxSeconds")).toEqual({ path: "train.maxSeconds", before: 9 })
    expect(configDiff(base, base)).toEqual([])
  })

  test("the order of keys in options is no difference", () => {
    expect(configDiff(base, resolveConfig({ ...base, rewards: [{ use: "math", options: { b: 2, a: 1 } }] }))).toEqual([])
  })

  test("what may change is returned", () => {
    const longer = resolveConfig({ ...base, train: { ...base.train, steps: 500 }, inference: { threads: 2 } })
    expect(checkResume(base, longer).map(({ path }) => path)).toEqual(["train.steps", "inference.threads"])
  })

  test("what may not is refused by name, with both values", () => {
    const other = resolveConfig({ ...base, seed: 3, rollout: { groupSize: 4 }, train: { steps: 5 }, data: { source: "env-x", options: { digits: 2, more: true } } })
    try {
      checkResume(base, other)
      throw new Error("accepted")
    } catch (error) {
      if (!isCohortError(error)) throw error
      expect(error.code).toBe("config_invalid")
      expect(error.message).toBe(
        "a resumed run cannot change seed, data.options.more, rollout.groupSize:\n  seed: the run has 0, now 3\n  data.options.more: the run has nothing, now true\n  rollout.groupSize: the run has 8, now 4",
      )
      expect(error.details?.["changes"]).toHaveLength(3)
    }
  })

  test("every fixed path exists", () => {
    for (const path of RESUME_FIXED) expect(nodeAt(path)).toBeDefined()
  })
})

// C157
describe("token budget", () => {
  test("given, it stands, with a warning where rows may not fit", () => {
    const config = resolveConfig({ ...minimal, train: { tokenBudget: 512 } })
    expect(tokenBudget(config, 4096)).toEqual({ value: 512, because: "train.tokenBudget" })
    expect(configWarnings(config).map(({ path }) => path)).toEqual(["train.tokenBudget"])
    expect(configWarnings(config)[0]?.message).toContain("512 + 512 - 1 = 1023; longer rows are dropped, and counted")
    expect(configWarnings(resolveConfig({ ...minimal, train: { tokenBudget: 1023 } }))).toEqual([])
  })

  test("unset, it is what the servers allow", () => {
    expect(tokenBudget(resolveConfig(minimal), 4096).value).toBe(4096)
    expect(tokenBudget(resolveConfig({ ...minimal, inference: { maxModelLength: 3072 } }), 4096).value).toBe(3072)
  })

  test("unset, it is never so small that calls cost more than tokens", () => {
    const { value, because } = tokenBudget(resolveConfig(minimal), 128)
    expect(value).toBe(2048)
    expect(because).toBe("the servers allow 128 tokens, and 2048 is the least")
    expect(tokenBudget(resolveConfig({ ...minimal, train: { tokenBudget: 512 } }), 128).value).toBe(512)
  })

  test.each([undefined, Number.NaN, 0, -1, 1.5])("a server that reports %p leaves the longest row", (reported) => {
    const chosen = tokenBudget(resolveConfig({ ...minimal, data: { source: "s", maxPromptTokens: 3000 } }), reported)
    expect(chosen.value).toBe(3512)
    expect(chosen.because).toContain("the servers report no length")
  })

  test("a fixed number of completions stands alone", () => {
    expect(resolveConfig({ ...minimal, train: { samplesPerBatch: 4, packing: "rows" } }).train.samplesPerBatch).toBe(4)
    expect(() => resolveConfig({ ...minimal, train: { samplesPerBatch: 4, tokenBudget: 512 } })).toThrow("leave one of the two out")
    expect(() => resolveConfig({ ...minimal, train: { samplesPerBatch: 4, packing: "packed" } })).toThrow("has a row each")
  })

  test("prompts per step are whole groups", () => {
    expect(promptsPerStep(resolveConfig({ ...minimal, train: { completionsPerStep: 24 } }))).toBe(3)
  })
})

test("warnings of what works and seldom is wanted", () => {
  const config = resolveConfig({ ...minimal, transfer: { kind: "none" }, rollout: { topP: 0.9, topK: 20, minP: 0.1, repetitionPenalty: 1.1 } })
  expect(configWarnings(config).map(({ path }) => path)).toEqual(["transfer.kind", "rollout.topP", "rollout.topK", "rollout.minP", "rollout.repetitionPenalty"])
  expect(configWarnings(resolveConfig({ ...minimal, transfer: { kind: "none" }, inference: { colocated: true } }))).toEqual([])
  const loss = (objective: object) => configWarnings(resolveConfig({ ...minimal, objective })).map(({ path }) => path)
  expect(loss({ kind: "dapo", level: "sequence" })).toEqual(["objective.level"])
  expect(loss({ kind: "grpo", level: "sequence" })).toEqual([])
  expect(loss({ klCoefficient: 0.1, klEstimator: "k1", klUnbiased: false })).toEqual(["objective.klEstimator"])
  expect(loss({ klCoefficient: 0.1, klEstimator: "k1" })).toEqual([])
})
