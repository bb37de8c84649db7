import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { chooseForm, type ChooseFormOptions, formKey } from "./form.ts"
import type { StepForm } from "./train-step.ts"

const root = mkdtempSync(join(tmpdir(), "cohort-forms-"))
afterAll(() => rmSync(root, { recursive: true }))

/** A machine on which each form takes a given time, and a compile much longer. */
function machine(costs: Readonly<Record<string, number>>) {
  let time = 0
  const runs: string[] = []
  return {
    runs,
    now: () => time,
    run(form: StepForm) {
      const name = `${form.mode} ${form.precision}`
      time += (costs[name] ?? 1e9) + (runs.includes(name) ? 0 : 10_000)
      runs.push(name)
    },
  }
}

const options = (parts: Partial<ChooseFormOptions> & Pick<ChooseFormOptions, "run" | "now">): ChooseFormOptions => ({ compile: "auto", precision: "auto", key: "machine model 8x64", ...parts })

test("the fastest form wins, the time of compiling aside", () => {
  expect(chooseForm(options(machine({ "xla f32": 30, "graph f32": 40, "graph bf16": 50 }))).form).toEqual({ mode: "xla", precision: "f32" })
  expect(chooseForm(options(machine({ "xla f32": 30, "graph f32": 25, "graph bf16": 24 }))).form).toEqual({ mode: "graph", precision: "f32" })
})

test("bf16 must be worth its rounding", () => {
  expect(chooseForm(options(machine({ "xla f32": 90, "graph f32": 100, "graph bf16": 60 }))).form).toEqual({ mode: "graph", precision: "bf16" })
})

test("what the config fixes is not measured", () => {
  const one = machine({})
  expect(chooseForm(options({ ...one, compile: "xla", precision: "f32" })).form).toEqual({ mode: "xla", precision: "f32" })
  expect(one.runs).toEqual([])
  expect(chooseForm(options({ ...machine({ "graph f32": 1, "graph bf16": 9 }), compile: "graph" })).form).toEqual({ mode: "graph", precision: "f32" })
})

test("a choice is remembered per machine, model and shape; a damaged memory is measured anew", () => {
  const memory = join(root, "deep", "train.json")
  const fast = machine({ "xla f32": 1, "graph f32": 2, "graph bf16": 3 })
  chooseForm(options({ ...fast, memory }))
  const again = machine({ "xla f32": 9, "graph f32": 2, "graph bf16": 3 })
  expect(chooseForm(options({ ...again, memory })).form.mode).toBe("xla")
  expect(again.runs).toEqual([])
  chooseForm(options({ ...again, memory, key: "another" }))
  expect(again.runs.length).toBeGreaterThan(0)
  writeFileSync(memory, "{ damaged")
  expect(chooseForm(options({ ...machine({ "xla f32": 9, "graph f32": 2, "graph bf16": 3 }), memory })).form.mode).toBe("graph")
})

test("what was asked for belongs to the memory: another run's answer from fewer forms is not taken, nor overwritten", () => {
  const memory = join(root, "asked", "train.json")
  const fast = machine({ "xla f32": 1, "graph f32": 2, "graph bf16": 3 })
  chooseForm(options({ ...fast, memory }))
  chooseForm(options({ ...machine({ "graph f32": 3, "graph bf16": 1 }), memory, compile: "graph" }))
  const again = machine({ "xla f32": 9, "graph f32": 2, "graph bf16": 3 })
  expect(chooseForm(options({ ...again, memory })).form.mode).toBe("xla")
  expect(again.runs).toEqual([])
})

test("a step is remembered by about its size, with its lanes and its adapter apart", () => {
  const step = { machine: "here", config: { architecture: "LlamaForCausalLM", layers: 4, hiddenSize: 128 }, lanes: 1, lora: undefined }
  expect(formKey(step, { rows: 8, length: 120 })).toBe(formKey(step, { rows: 7, length: 152 }))
  const keys = [step, { ...step, lanes: 2 }, { ...step, lora: { rank: 8, targets: ["q_proj"] as const } }].map((one) => formKey(one, { rows: 8, length: 128 }))
  expect(new Set([...keys, formKey(step, { rows: 8, length: 512 })]).size).toBe(4)
})
