import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { foreignNames } from "./foreign-name.ts"
import { loadConfig, resolveConfig } from "./load.ts"
import type { RunConfigInput } from "./schema.ts"
import { editDistance, suggest } from "./suggest.ts"
import { issuesOf, minimal, sourcesOf } from "./testing.ts"
import { keyNodes, nodeAt } from "./tree.ts"

/** An input that the types would refuse. */
const wild = (extra: object): RunConfigInput => ({ ...minimal, ...extra })

describe("unknown keys", () => {
  // C151
  test.each([
    ["leraning_rate", ["train.learningRate"]],
    ["train.leraning_rate", ["train.learningRate"]],
    ["train.learning_rate", ["train.learningRate"]],
    ["train.LearningRate", ["train.learningRate"]],
    ["train.learning-rate", ["train.learningRate"]],
    ["rollout.learningRate", ["train.learningRate"]],
    ["train_learning_rate", ["train.learningRate"]],
    ["staleness.staleness.maxSteps", ["staleness.maxSteps"]],
    ["model.pth", ["model.path"]],
    ["trian.steps", ["train.steps"]],
    ["threads", ["inference.threads", "backend.threads"]],
    ["inference.kinds", ["inference.kind"]],
    ["num_generations", ["rollout.groupSize"]],
    ["train.max_staleness", ["staleness.maxSteps"]],
    ["zzzzzz", []],
  ])("%s", (path, expected) => expect(suggest(path).paths).toEqual(expected))

  test("tables that stand for nothing are reported by what is in them; close sections by name", async () => {
    const { issues } = await issuesOf(() => resolveConfig(wild({ staleness: { staleness: { maxSteps: 3 } }, trainer: { steps: 4 }, rolout: { topP: 1 } })))
    expect(issues.map(({ path, suggestions }) => [path, suggestions])).toEqual([
      ["staleness.staleness.maxSteps", ["staleness.maxSteps"]],
      ["trainer.steps", ["train.steps"]],
      ["rolout", ["rollout"]],
    ])
  })

  test("inside the items of a list", async () => {
    const { issues, message } = await issuesOf(() => resolveConfig(wild({ rewards: ["math", { use: "x", weigth: 2 }] })))
    expect(issues.map((issue) => issue.path)).toEqual(["rewards[1].weigth"])
    expect(message).toContain("there are use, weight, options")
  })

  // C152: two spellings of one setting
  test("a key beside its other spelling is refused", async () => {
    const { issues } = await issuesOf(() => resolveConfig(wild({ train: { learningRate: 1e-5, learning_rate: 1e-6 } })))
    expect(issues.map(({ path, suggestions }) => [path, suggestions])).toEqual([["train.learning_rate", ["train.learningRate"]]])
  })

  // C152, C155: names of elsewhere say what to use here
  test("names of other trainers are answered with ours and what differs", async () => {
    const { message } = await issuesOf(() => resolveConfig(wild({ generation_batch_size: 32, steps_per_generation: 4, request_timeout: 600, beta: 0.04 })))
    expect(message).toContain("Did you mean train.completionsPerStep?")
    expect(message).toContain("steps_per_generation = 4 (input): unknown key; train.completionsPerStep counts the completions")
    expect(message).toContain("in milliseconds here. Did you mean inference.requestTimeoutMs?")
    expect(message).toContain("beta = 0.04 (input): unknown key. Did you mean objective.klCoefficient?")
  })

  test("every foreign name leads to a setting, and is none itself", () => {
    const ours = new Set(keyNodes.map((node) => node.path.slice(node.path.lastIndexOf(".") + 1).toLowerCase()))
    for (const [name, { path, note }] of foreignNames) {
      expect(path ?? note).toBeDefined()
      if (path !== undefined) expect(nodeAt(path)?.kind).toBe("key")
      expect(ours).not.toContain(name)
    }
  })

  test("names that reach a prototype are unknown and reach nothing", async () => {
    const text = '{"model": {"path": "m"}, "data": {"source": "s", "options": {"__proto__": {"polluted": 1}}}, "__proto__": {"seed": 3}, "constructor": 1}'
    const { issues } = await issuesOf(() => loadConfig(sourcesOf({ file: "c.json", text, flags: ["--data.options.__proto__.polluted", "1"] })))
    expect(issues.map((issue) => issue.path).toSorted()).toEqual(["__proto__.seed", "constructor", "data.options.__proto__.polluted", "data.options.__proto__.polluted"].toSorted())
    expect(Reflect.get({}, "polluted")).toBeUndefined()
  })

  test("a misspelt required key is one problem, not two", async () => {
    const { issues } = await issuesOf(() => resolveConfig({ ...minimal, model: { pth: "x" } as unknown as { path: string } }))
    expect(issues.map((issue) => issue.kind)).toEqual(["unknown"])
  })

  test("a slip that makes it a key of elsewhere leads to both", () => {
    expect(suggest("backend.thread").paths).toEqual(["backend.threads", "rollout.thread"])
  })

  test("any one slip in any key is refused and the key is found", () => {
    fc.assert(
      fc.property(fc.constantFrom(...keyNodes.filter((node) => node.path.includes(".") && node.path.length - node.path.lastIndexOf(".") > 5)), fc.nat(), (node, at) => {
        const dot = node.path.lastIndexOf(".") + 1
        const i = dot + (at % (node.path.length - dot))
        const slip = node.path.slice(0, i) + node.path.slice(i + 1)
        if (nodeAt(slip) !== undefined || foreignNames.has(slip.slice(dot).toLowerCase())) return
        expect(suggest(slip).paths).toContain(node.path)
      }),
      { numRuns: 300, seed: 2 },
    )
  })

  test("edit distance is a metric that counts a swap once", () => {
    expect(editDistance("leraning", "learning")).toBe(1)
    expect(editDistance("", "abc")).toBe(3)
    fc.assert(
      fc.property(fc.string({ maxLength: 8 }), fc.string({ maxLength: 8 }), (a, b) => {
        const d = editDistance(a, b)
        expect(d).toBe(editDistance(b, a))
        expect(d === 0).toBe(a === b)
        expect(d).toBeGreaterThanOrEqual(Math.abs(a.length - b.length))
        expect(d).toBeLessThanOrEqual(Math.max(a.length, b.length))
      }),
      { numRuns: 100, seed: 3 },
    )
  })
})
