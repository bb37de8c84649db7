import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { resolveConfig } from "./load.ts"
import { groupSizesOf, rules } from "./rule.ts"
import type { RunConfigInput } from "./schema.ts"
import { issuesOf, minimal } from "./testing.ts"

const refused: readonly [name: string, input: Partial<RunConfigInput>, path: string, says: string][] = [
  ["epsilonHigh below epsilonLow", { objective: { epsilonLow: 0.3, epsilonHigh: 0.2 } }, "objective.epsilonHigh", "at least objective.epsilonLow = 0.3"],
  ["delta inside the clip range", { objective: { epsilonHigh: 0.5, delta: 1.4 } }, "objective.delta", "above 1 + objective.epsilonHigh = 1.5"],
  ["delta where nothing is clipped", { objective: { kind: "cispo", delta: 9 } }, "objective.delta", "cispo has no clip"],
  ["a token ratio for gspo", { objective: { kind: "gspo", level: "token" } }, "objective.level", "defined by its sequence ratio"],
  ["the sampler's ratio with a correction", { objective: { oldPolicy: "behavior", correction: "token_truncate" } }, "objective.oldPolicy", "count the mismatch twice"],
  ["a scale for rloo", { objective: { advantage: "rloo", advantageScale: "batch" } }, "objective.advantageScale", "has a scale of its own"],
  ["no KL to take off the reward", { objective: { klIn: "reward" } }, "objective.klIn", "Set objective.klCoefficient above 0"],
  ["a KL among rewards that are normalised apart", { objective: { advantage: "gdpo", klCoefficient: 0.1, klIn: "reward" } }, "objective.klIn", "normalises each reward by itself"],
  ["a moving reference without a KL", { objective: { reference: "moving" } }, "objective.reference", "only used by the KL"],
  ["a moving reference of an adapter", { model: { ...minimal.model, lora: {} }, objective: { reference: "moving", klCoefficient: 0.1 } }, "objective.reference", "not the mean of their models"],
  ["an adapter's transfer without one", { transfer: { kind: "lora" }, inference: { kind: "vllm", urls: ["http://a:1"] } }, "transfer.kind", "no adapter to send"],
  ["an adapter for another engine", { model: { ...minimal.model, lora: {} }, transfer: { kind: "lora" } }, "transfer.kind", "into vLLM only"],
  ["an adaptive bonus that starts outside", { objective: { entropyAdaptive: true, entropyCoefficient: 2 } }, "objective.entropyCoefficient", "within objective.entropyMin = 0 and objective.entropyMax = 1"],
  ["a bound of no correction", { objective: { correctionMin: 0.5 } }, "objective.correctionMin", "Name a correction"],
  ["correction bounds the wrong way", { objective: { correction: "token_mask", correctionMin: 4 } }, "objective.correctionMin", "below objective.correctionMax = 3"],
  ["a sequence correction for vespo", { objective: { kind: "vespo", correction: "sequence_mask" } }, "objective.correction", "token_truncate or token_mask"],
  ["temperature 0 in training", { rollout: { temperature: 0 } }, "rollout.temperature", "every advantage is 0"],
  ["rows longer than the model allows", { inference: { maxModelLength: 1000 } }, "inference.maxModelLength", "512 + 512 = 1024"],
  ["warm-up longer than the run", { train: { steps: 10, warmupSteps: 11 } }, "train.warmupSteps", "at most train.steps = 10"],
  ["syncs too rare to be on-policy", { staleness: { maxSteps: 0, weightSyncSteps: 2 } }, "staleness.weightSyncSteps", "at most staleness.maxSteps + 1 = 1"],
  ["oversampling without pacing", { rollout: { oversampling: 1.5 }, staleness: { policy: "mask" } }, "rollout.oversampling", 'set staleness.policy to "pace"'],
  ["vLLM without an address", { inference: { kind: "vllm" } }, "inference.urls", "at least one address"],
  ["the same server twice", { inference: { kind: "vllm", urls: ["http://a:1", "http://a:1/"] } }, "inference.urls", "different addresses"],
  ["colocated with vLLM", { inference: { kind: "vllm", urls: ["http://a:1"], colocated: true } }, "inference.colocated", "false with servers of your own"],
  ["a file without rewards", { data: { source: "rows.jsonl" } }, "rewards", "at least one reward"],
  ["rewards that weigh nothing", { rewards: [{ use: "math", weight: 0 }] }, "rewards", "a weight other than 0"],
  ["evaluation without prompts", { data: { source: "rows.parquet" }, rewards: ["math"], eval: { everySteps: 5 } }, "eval.everySteps", "Name the evaluation prompts"],
  ["several greedy samples", { eval: { samples: 4 } }, "eval.samples", "greedy completions"],
]

describe("rules between settings", () => {
  test.each(refused)("refuses %s", async (_, input, path, says) => {
    const { issues, message } = await issuesOf(() => resolveConfig({ ...minimal, ...input }))
    expect(issues.map((issue) => [issue.kind, issue.path])).toEqual([["combination", path]])
    expect(message).toContain(says)
  })

  test("edges that are fine", () => {
    const fine: Partial<RunConfigInput>[] = [
      { objective: { epsilonLow: 0.2, epsilonHigh: 0.28 } },
      { objective: { kind: "cispo", epsilonHigh: 0.1 } },
      { objective: { kind: "grpo", level: "sequence", delta: 4, correction: "geometric_mask", correctionMin: 0.95, correctionMax: 1.05 } },
      { objective: { klCoefficient: 0.1, klIn: "reward", reference: "moving" } },
      { model: { ...minimal.model, lora: { rank: 4 } }, objective: { klCoefficient: 0.1, klIn: "reward" } },
      { model: { ...minimal.model, lora: {} }, transfer: { kind: "lora" }, inference: { kind: "vllm", urls: ["http://a:1"] } },
      { inference: { maxModelLength: 1024 } },
      { train: { steps: 10, warmupSteps: 10 } },
      { staleness: { maxSteps: 0, weightSyncSteps: 1 } },
      { staleness: { maxSteps: 1, weightSyncSteps: 2 } },
      { rollout: { oversampling: 1.5 } },
      { inference: { colocated: true } },
      { inference: { kind: "embedded", urls: ["http://127.0.0.1:1"] } },
      { data: { source: "rows.jsonl" }, environment: { use: "env-tool-use" } },
      { eval: { samples: 4, temperature: 1 } },
    ]
    for (const input of fine) expect(resolveConfig({ ...minimal, ...input }).model.path).toBe("models/tiny")
  })

  // C149
  test("a batch that groups do not divide is refused with numbers and choices", async () => {
    const { issues, message } = await issuesOf(() => resolveConfig({ ...minimal, train: { completionsPerStep: 5 }, rollout: { groupSize: 4 } }))
    expect(issues).toHaveLength(1)
    expect(issues[0]).toMatchObject({ path: "train.completionsPerStep", value: 5, expected: "a multiple of rollout.groupSize = 4" })
    expect(message).toContain("Set train.completionsPerStep to 4 or 8, or rollout.groupSize to 5.")
  })

  test("a batch of one group is allowed: only the product counts", () => {
    expect(resolveConfig({ ...minimal, train: { completionsPerStep: 6 }, rollout: { groupSize: 6 } }).train.completionsPerStep).toBe(6)
  })

  test("a batch under one group names the next multiple", async () => {
    const { message } = await issuesOf(() => resolveConfig({ ...minimal, train: { completionsPerStep: 3 } }))
    expect(message).toContain("Set train.completionsPerStep to 8, or rollout.groupSize to 3.")
  })

  test("every choice that the message names is valid, and there always is one", () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 5000 }), (n) => {
        const sizes = groupSizesOf(n)
        expect(sizes.at(-1)).toBe(n)
        expect(sizes).toEqual(Array.from({ length: n - 1 }, (_, i) => i + 2).filter((d) => n % d === 0))
      }),
      { numRuns: 50, seed: 1 },
    )
  })

  // C155
  test("out of range alone", async () => {
    const { issues } = await issuesOf(() =>
      resolveConfig({ ...minimal, rollout: { topP: 0, groupSize: 1 }, train: { steps: 0 }, staleness: { weightSyncSteps: 0, maxSteps: -1 }, objective: { epsilonLow: 1 } }),
    )
    expect(issues.map((issue) => [issue.path, issue.expected])).toEqual([
      ["rollout.groupSize", "integer >= 2"],
      ["rollout.topP", "number > 0 and <= 1"],
      ["staleness.maxSteps", "integer >= 0"],
      ["staleness.weightSyncSteps", "integer >= 1"],
      ["train.steps", "integer >= 1"],
      ["objective.epsilonLow", "number >= 0 and < 1"],
    ])
  })

  test("a rule names all the keys that it reads", () => {
    const seen = new Set<string>()
    const spy = (value: object, path: string): object =>
      new Proxy(value, {
        get: (target, name) => {
          const at = path === "" ? String(name) : `${path}.${String(name)}`
          const inner: unknown = Reflect.get(target, name)
          if (typeof inner === "object" && inner !== null && !Array.isArray(inner)) return spy(inner, at)
          seen.add(at)
          return inner
        },
      })
    for (const [, input] of [...refused, ["plain", {}] as const]) {
      const sections = { objective: {}, rollout: {}, inference: {}, train: {}, staleness: {}, eval: {} }
      const base = resolveConfig(minimal)
      const merged = Object.fromEntries(
        Object.entries({ ...base, ...input }).map(([name, value]) => [name, name in sections ? { ...Reflect.get(base, name), ...(value as object) } : value]), // a section
      )
      for (const rule of rules) {
        seen.clear()
        rule.check(spy(merged, "") as Parameters<typeof rule.check>[0]) // the merged input has every key
        for (const path of seen) expect(rule.reads).toContain(path)
      }
    }
  })

  test("a rule is silent where one of its keys is already wrong, or misspelt", async () => {
    const wrong = await issuesOf(() => resolveConfig({ ...minimal, train: { completionsPerStep: 5 }, rollout: { groupSize: 1 } }))
    expect(wrong.issues.map((issue) => issue.path)).toEqual(["rollout.groupSize"])
    const input: object = { ...minimal, train: { completionsPerStep: 4 }, rollout: { groupsize: 4 } }
    const misspelt = await issuesOf(() => resolveConfig(input as RunConfigInput)) // wrong on purpose
    expect(misspelt.issues.map((issue) => issue.path)).toEqual(["rollout.groupsize"])
  })
})
