import { describe, expect, test } from "bun:test"
import { isCohortError } from "@cohort/errors"
import { loadConfig } from "../load.ts"
import type { JsonTable, JsonValue } from "../json.ts"
import { minimalFlags, sourcesOf } from "../testing.ts"
import { nodeAt } from "../tree.ts"
import { absent } from "./absent.ts"
import { fromTrl } from "./from-trl.ts"
import { trlMarkdown } from "./markdown.ts"
import { isRefusal, type TrlTrainer } from "./row.ts"
import { absentReasons, extraDefaults, trainersOf, trlDefaults, trlRows } from "./table.ts"

const convert = (given: JsonTable, trainer?: TrlTrainer) => fromTrl(JSON.stringify(given), trainer === undefined ? {} : { trainer })
const optionsOf = new Set([...Object.keys(trlDefaults.async), ...Object.keys(trlDefaults.grpo), ...Object.keys(extraDefaults)])

/** Loads the written file, with what TRL's options never hold. */
async function loaded(given: JsonTable, trainer?: TrlTrainer) {
  const { toml, settings } = convert(given, trainer)
  const flags = [...(settings["model.path"] === undefined ? minimalFlags.slice(0, 2) : []), ...(settings["data.source"] === undefined ? minimalFlags.slice(2) : [])]
  return (await loadConfig(sourcesOf({ file: "from-trl.toml", text: toml, flags }))).config
}

function valueAt(config: object, path: string): unknown {
  return path.split(".").reduce<unknown>((at, name) => (typeof at === "object" && at !== null ? Reflect.get(at, name) : undefined), config)
}

describe("the table", () => {
  test("has each of TRL's options once, in one of its two parts", () => {
    const rows = trlRows.map(({ option }) => option)
    const without = absent.flatMap(({ options }) => options)
    expect(new Set([...rows, ...without]).size).toBe(rows.length + without.length)
    expect([...optionsOf].filter((option) => !rows.includes(option) && !absentReasons.has(option))).toEqual([])
    expect(without.filter((option) => !optionsOf.has(option))).toEqual([])
  })

  test("docs/from-trl.md is up to date (bun run docs)", async () => {
    expect(await Bun.file(new URL("../../../../docs/from-trl.md", import.meta.url)).text()).toBe(trlMarkdown())
  })

  test("TRL's own defaults are no surprise: nothing of them is refused but the epochs", () => {
    for (const trainer of ["async", "grpo"] as const) {
      const { notMapped } = convert(trlDefaults[trainer], trainer)
      expect(notMapped.map(({ option }) => option)).toEqual(["num_train_epochs"])
    }
  })
})

describe("each option that is taken over", () => {
  test.each(trlRows.map((row) => [row.option, row] as const))("%s", async (option, row) => {
    const trainer = trainersOf(option)[0] ?? "grpo"
    const given = { ...row.beside, [option]: row.example }
    const result = convert(given, trainer)
    const answer = row.answer(row.example, { trainer, values: { ...extraDefaults, ...trlDefaults[trainer], ...given }, processes: 1 })
    if (isRefusal(answer)) {
      expect(result.notMapped.find((entry) => entry.option === option)?.reason).toBe(answer.reason)
      return
    }
    const config = await loaded(given, trainer)
    for (const { path, value } of answer) {
      expect(nodeAt(path)?.kind).toBe("key")
      expect(result.settings[path]).toEqual(value)
      const found = valueAt(config, path)
      // Names of plugins are filled up with their defaults.
      if (path === "rewards" || path === "tracking.trackers") expect(found).toMatchObject((value as readonly JsonValue[]).map((item) => (typeof item === "string" ? { use: item } : item)))
      else expect(found).toEqual(value)
    }
    if (answer.length === 0) expect(result.notMapped.map((entry) => entry.option)).not.toContain(option)
    expect(row.becomes.length).toBeGreaterThan(5)
  })
})

describe("each option without a counterpart", () => {
  const changed = (value: JsonValue | undefined): JsonValue => (typeof value === "boolean" ? !value : typeof value === "number" ? value + 1 : "changed")
  test.each(absent.flatMap(({ reason, options }) => options.map((option) => [option, reason] as const)))("%s", (option, reason) => {
    const trainer = trainersOf(option)[0] ?? "async"
    const standard = trlDefaults[trainer][option] ?? extraDefaults[option]
    expect(convert({ [option]: changed(standard), max_steps: 5 }, trainer).notMapped).toEqual([{ option, value: changed(standard), reason }])
    if (standard !== undefined) expect(convert({ [option]: standard, max_steps: 5 }, trainer).notMapped).toEqual([])
  })
})

describe("values that follow from several options", () => {
  const settings = (given: JsonTable, trainer?: TrlTrainer) => convert(given, trainer).settings

  test("batch and processes, in whole groups", () => {
    expect(fromTrl("per_device_train_batch_size: 4\ngradient_accumulation_steps: 3\n", { processes: 2 }).settings["train.completionsPerStep"]).toBe(24)
    const { mapped } = convert({ per_device_train_batch_size: 3, num_generations: 4 })
    expect(mapped.find(({ path }) => path === "train.completionsPerStep")).toMatchObject({ value: 4, note: expect.stringContaining("3 rounded up to whole groups of 4") })
  })

  test("the synchronous trainer is our loop in turns", () => {
    expect(settings({ beta: 0.1 })).toMatchObject({ "staleness.maxSteps": 0, "inference.colocated": true, "objective.oldPolicy": "proximal" })
    expect(settings({ beta: 0.1, steps_per_generation: 8, gradient_accumulation_steps: 2 })["staleness.maxSteps"]).toBe(3)
    expect(settings({ generation_batch_size: 32, per_device_train_batch_size: 8, gradient_accumulation_steps: 2 })["staleness.maxSteps"]).toBe(1)
  })

  test("the asynchronous trainer's defaults come along where ours differ", () => {
    expect(settings({ max_staleness: 4 })).toMatchObject({ "rollout.maxCompletionTokens": 2048, "objective.standardDeviation": "population", "inference.kind": "vllm", "inference.urls": ["http://localhost:8000"], "train.completionsPerStep": 8, "rollout.forkThresholdTokens": 1024 })
    expect(settings({ max_staleness: 4 })["train.learningRate"]).toBeUndefined()
  })

  test("objectives", () => {
    expect(settings({ loss_type: "grpo", importance_sampling_level: "sequence" })).toMatchObject({ "objective.kind": "gspo" })
    expect(settings({ loss_type: "dapo", importance_sampling_level: "sequence" })).toMatchObject({ "objective.kind": "dapo", "objective.level": "sequence" })
    expect(settings({ loss_type: "luspo" })).toMatchObject({ "objective.kind": "luspo", "objective.level": "token" })
    expect(settings({ loss_type: "cispo", epsilon_high: 5 })["objective.epsilonHigh"]).toBe(4)
    expect(convert({ loss_type: "cispo", epsilon_high: 0.5 }).notMapped.find(({ option }) => option === "epsilon_high")?.reason).toContain("a cap of 0.5")
    expect(settings({ epsilon: 0.1, beta: 0 })).toMatchObject({ "objective.epsilonLow": 0.1, "objective.epsilonHigh": 0.1 })
    expect(settings({ scale_rewards: false, beta: 0 })["objective.advantageScale"]).toBe("none")
    expect(settings({ use_vllm: true })).toMatchObject({ "objective.correction": "sequence_mask" })
    expect(settings({ use_vllm: false })["objective.correction"]).toBeUndefined()
  })

  test("adapters", () => {
    expect(settings({ use_peft: true, lora_r: 8 })).toMatchObject({ "model.lora.rank": 8, "model.lora.alpha": 32, "model.lora.targets": ["q_proj", "v_proj"] })
    expect(settings({ use_peft: true, lora_target_modules: "all-linear" })["model.lora.targets"]).toHaveLength(7)
    expect(settings({ lora_r: 8 })["model.lora.rank"]).toBeUndefined()
    expect(convert({ use_peft: true, lora_target_modules: ["lm_head"] }).notMapped.find(({ option }) => option === "lora_target_modules")?.reason).toContain("not of lm_head")
    expect(convert({ use_peft: false, lora_dropout: 0.05, use_dora: false, max_steps: 1 }).notMapped).toEqual([])
  })

  test("without a token budget micro-batches have a number of completions", () => {
    expect(settings({ token_budget: 0, per_device_train_batch_size: 4 })).toMatchObject({ "train.samplesPerBatch": 4 })
    expect(settings({ token_budget: 512, per_device_train_batch_size: 4 })).not.toHaveProperty(["train.samplesPerBatch"])
  })

  test("steps are counted without the passes over a batch", () => {
    const passes = { num_iterations: 4, max_steps: 100, save_steps: 10, eval_strategy: "steps", eval_steps: 20, beta: 0.1, sync_ref_model: true, ref_model_sync_steps: 64, warmup_steps: 0.1 }
    expect(settings(passes)).toMatchObject({ "train.iterations": 4, "train.steps": 25, "train.checkpointEverySteps": 3, "eval.everySteps": 5, "objective.referenceEverySteps": 16, "train.warmupSteps": 3 })
    expect(convert(passes).mapped.find(({ path }) => path === "train.steps")?.note).toContain("each of the 4 passes")
  })

  test("a correction without an upper bound stays without one", () => {
    expect(settings({ use_vllm: true, vllm_importance_sampling_clip_max: null, vllm_importance_sampling_clip_min: 0.5 })).toMatchObject({ "objective.correctionMin": 0.5, "objective.correctionMax": 1e30 })
  })

  test("a share of the steps needs their number", () => {
    expect(settings({ warmup_steps: 0.1, max_steps: 50 })["train.warmupSteps"]).toBe(5)
    expect(convert({ warmup_steps: 0.1 }).notMapped.find(({ option }) => option === "warmup_steps")?.reason).toContain("not known without max_steps")
  })

  test("the reason names values that only some options have", () => {
    const reasonOf = (given: JsonTable, option: string) => convert(given).notMapped.find((entry) => entry.option === option)?.reason
    expect(reasonOf({ optim: "adafactor" }, "optim")).toBe("the optimizer is AdamW, not adafactor")
    expect(reasonOf({ lr_scheduler_type: "polynomial" }, "lr_scheduler_type")).toContain("train.schedule takes")
    expect(reasonOf({ report_to: ["neptune"] }, "report_to")).toContain("neptune")
    expect(reasonOf({ learning_rate: "fast" }, "learning_rate")).toBe("train.learningRate takes number > 0")
    expect(reasonOf({ max_stalenes: 3 }, "max_stalenes")).toContain("did you mean max_staleness?")
  })
})

test("YAML and JSON, comments for what is left, and a file that loads", async () => {
  const { toml, trainer, notMapped } = fromTrl("# a run\nnum_generations: 4\nlearning_rate: 1.0e-5\nfp16: true\nmodel_name_or_path: Qwen/Qwen3-0.6B\n")
  expect(trainer).toBe("async")
  expect(notMapped.map(({ option }) => option)).toEqual(["num_train_epochs", "fp16"])
  expect(toml).toContain('# data.source = "..."')
  expect(toml).toContain('model.path = "Qwen/Qwen3-0.6B"  # model_name_or_path')
  expect(toml).toContain("# not taken over: fp16 = true: float16")
  const { config } = await loadConfig(sourcesOf({ file: "x.toml", text: toml, flags: ["--data.source", "env-arithmetic"] }))
  expect(config.train.learningRate).toBe(1e-5)
  expect(config.rollout.groupSize).toBe(4)
})

test("options of both trainers are refused unless one is named; broken text is refused", () => {
  const mixed = { token_budget: 100, beta: 0.1 }
  expect(() => convert(mixed)).toThrow("token_budget belong to AsyncGRPOConfig, beta to GRPOConfig")
  expect(convert(mixed, "async").notMapped.map(({ option }) => option)).not.toContain("token_budget")
  for (const text of ["[1, 2]", "{", "a: 1\na: 2\n"]) {
    try {
      fromTrl(text)
      expect(text).toBe("refused")
    } catch (error) {
      expect(isCohortError(error) && error.code).toBe("config_invalid")
    }
  }
})
