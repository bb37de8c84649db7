import { expect, test } from "bun:test"
import { createStepPlanner } from "@cohort/batching"
import { resolveConfig, type RunConfigInput } from "@cohort/config"
import { plannerOptions, rowsThatFit } from "./batching.ts"

const configOf = (train: RunConfigInput["train"] = {}) => resolveConfig({ model: { path: "m" }, data: { source: "d", maxPromptTokens: 100 }, rewards: ["r"], rollout: { maxCompletionTokens: 50 }, train })
const cost = { attentionLength: 100, perBatch: 1, perShape: 1 }
const facts = { backend: { packing: cost }, maxModelLength: 4096, multiTurn: false }

test("a sample is a prompt and a completion, or with several turns what the model holds", () => {
  expect(plannerOptions(configOf(), facts)).toEqual({ maxLength: 150, tokenBudget: 4096, samplesPerStep: 64, packing: "auto", cost })
  expect(plannerOptions(configOf(), { ...facts, multiTurn: true }).maxLength).toBe(4096)
  expect(plannerOptions(configOf(), { ...facts, maxModelLength: 120 })).toMatchObject({ maxLength: 120, tokenBudget: 2048 })
  expect(plannerOptions(configOf(), { ...facts, maxModelLength: Number.NaN, multiTurn: true }).maxLength).toBe(150)
})

test("a backend without packed rows gets a row per sample, and says so to whom wants them", () => {
  expect(plannerOptions(configOf(), { ...facts, backend: {} }).packing).toBe("rows")
  expect(() => plannerOptions(configOf({ packing: "packed" }), { ...facts, backend: {} })).toThrow('train.packing is "packed"')
})

test("a fixed number of completions takes the place of the budget, in a planner that can be made", () => {
  const options = plannerOptions(configOf({ samplesPerBatch: 6 }), facts)
  expect(options).toMatchObject({ samplesPerBatch: 6, packing: "auto" })
  expect(options.tokenBudget).toBeUndefined()
  expect(createStepPlanner(options).longest).toBe(153)
})

test("lanes of the backend reach the planner; rows that fit are those of the longest samples", () => {
  expect(plannerOptions(configOf(), { ...facts, backend: { packing: cost, lanes: 2 } }).lanes).toBe(2)
  expect(rowsThatFit(plannerOptions(configOf(), facts))).toBe(27)
  expect(rowsThatFit(plannerOptions(configOf({ tokenBudget: 100 }), facts))).toBe(1)
  expect(rowsThatFit(plannerOptions(configOf({ tokenBudget: 298 }), facts))).toBe(2)
  expect(rowsThatFit(plannerOptions(configOf({ samplesPerBatch: 6 }), facts))).toBe(6)
})
