import { describe, expect, test } from "bun:test"
import * as v from "valibot"
import { loadConfig, resolveConfig } from "./load.ts"
import { defineConfig, type RunConfig, runConfigSchema } from "./schema.ts"
import { issuesOf, minimal, minimalFlags, sourcesOf } from "./testing.ts"

describe("the run schema", () => {
  test("fills every default from the two keys that are needed", () => {
    const config = resolveConfig(minimal)
    expect(config.rollout.groupSize).toBe(8)
    expect(config.staleness).toEqual({ maxSteps: 4, policy: "pace", overdue: "continue", weightSyncSteps: 1, slo: [] })
    expect(config.objective).toMatchObject({
      kind: "dapo", epsilonLow: 0.2, epsilonHigh: 0.2, advantage: "group", advantageScale: "group", standardDeviation: "sample", maskTruncated: false,
      klCoefficient: 0, entropyCoefficient: 0, topEntropyShare: 1, correction: "none",
    })
    expect("delta" in config.objective).toBe(false)
    expect(config.tracking.trackers).toEqual([{ use: "jsonl", options: {} }])
    expect(config.environment).toBeUndefined()
    expect("maxSeconds" in config.train).toBe(false)
  })

  test("an adapter is off, and on with any of its settings", async () => {
    expect("lora" in resolveConfig(minimal).model).toBe(false)
    const all = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const
    expect(resolveConfig({ ...minimal, model: { ...minimal.model, lora: {} } }).model.lora).toEqual({ rank: 16, alpha: 32, targets: [...all], rankStabilized: false })
    const { config } = await loadConfig(sourcesOf({ flags: [...minimalFlags, "--model.lora.rank", "4", "--model.lora.targets", "q_proj,v_proj"] }))
    expect(config.model.lora).toEqual({ rank: 4, alpha: 32, targets: ["q_proj", "v_proj"], rankStabilized: false })
    const { issues } = await issuesOf(() => resolveConfig({ ...minimal, model: { ...minimal.model, lora: { rank: 0, targets: [], rnk: 3 } as object } }))
    expect(issues.map(({ path }) => path).toSorted()).toEqual(["model.lora.rank", "model.lora.rnk", "model.lora.targets"])
  })

  test("a reward's name alone takes the defaults", () => {
    expect(resolveConfig({ ...minimal, rewards: ["math", { use: "length", weight: -0.1 }] }).rewards).toEqual([
      { use: "math", weight: 1, options: {}, deadlineMs: 30_000, retries: 2, onFailure: "drop", isolate: false, isolateMemoryMb: 512 },
      { use: "length", weight: -0.1, options: {}, deadlineMs: 30_000, retries: 2, onFailure: "drop", isolate: false, isolateMemoryMb: 512 },
    ])
  })

  test("the config is frozen at every level, the input is not", () => {
    const options = { nested: { list: [1] } }
    const config = resolveConfig({ ...minimal, rewards: [{ use: "math", options }] })
    expect(Object.isFrozen(config.train)).toBe(true)
    expect(Object.isFrozen(config.rewards[0]?.options.nested)).toBe(true)
    expect(Reflect.set(config.train, "steps", 1)).toBe(false)
    options.nested.list.push(2)
    expect(options.nested.list).toEqual([1, 2])
    expect(config.rewards[0]?.options).toEqual({ nested: { list: [1] } })
    // @ts-expect-error every level is readonly
    const write = (c: RunConfig): void => void (c.train.steps = 1)
    expect(() => write(config)).toThrow(TypeError)
  })

  test("as a schema of its own it holds the rules too, at the key they are about", () => {
    const result = v.safeParse(runConfigSchema, { ...minimal, train: { completionsPerStep: 5 }, rollout: { groupSize: 4 } })
    expect(result.success).toBe(false)
    expect(result.issues?.map((issue) => v.getDotPath(issue))).toEqual(["train.completionsPerStep"])
    const good = v.parse(runConfigSchema, minimal)
    expect(good).toEqual(resolveConfig(minimal))
    expect(Object.isFrozen(good.train)).toBe(true)
    expect(v.is(runConfigSchema, { ...minimal, sede: 1 })).toBe(false)
  })

  test("defineConfig types a file and refuses what is not there", () => {
    expect(defineConfig({ ...minimal, train: { steps: 3 } })).toEqual({ ...minimal, train: { steps: 3 } })
    // @ts-expect-error not a setting
    expect(() => resolveConfig(defineConfig({ ...minimal, train: { stepz: 3 } }))).toThrow("train.stepz")
  })

  test("addresses lose their trailing slash", () => {
    const config = resolveConfig({ ...minimal, inference: { kind: "vllm", urls: ["http://localhost:8000/"] } })
    expect(config.inference.urls).toEqual(["http://localhost:8000"])
  })

  test("numbers must be finite and free-form values JSON", async () => {
    const { issues } = await issuesOf(() => resolveConfig({ ...minimal, train: { learningRate: Number.POSITIVE_INFINITY, maxGradNorm: Number.NaN }, seed: 1.5 }))
    expect(issues.map((issue) => issue.path).toSorted()).toEqual(["seed", "train.learningRate", "train.maxGradNorm"])
    const bad = await issuesOf(() => resolveConfig({ ...minimal, data: { source: "x", options: { when: new Date(0) as unknown as string } } }))
    expect(bad.issues.map((issue) => issue.path)).toEqual(["data.options.when"])
  })

  test("a run's name is a safe part of a path", async () => {
    for (const name of ["../up", "a/b", "", ".hidden", "a\nb"]) expect((await issuesOf(() => resolveConfig({ ...minimal, name }))).issues[0]?.path).toBe("name")
  })
})
