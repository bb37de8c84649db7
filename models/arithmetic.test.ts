// The committed policy is the one that its card describes, and starts where the quickstart needs it to.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { createPolicy, openFolderValues, readModelConfig } from "@cohort/model"
import { openDefaultRuntime, type TensorRuntime } from "@cohort/tensor"
import { openTokenizer } from "@cohort/tokenizer"
import { demonstrate } from "./demonstrations.ts"
import { folder, heldOutExercise, tasks } from "./make-arithmetic.ts"
import { sha256Of } from "./sha256.ts"
import { carelessAnswer } from "./pupil.ts"
import { accuracy, createWarmUp } from "./warm-up.ts"

const card = readFileSync(join(folder, "README.md"), "utf8")

test("the weights are those of the card", async () => {
  expect(card).toContain(await sha256Of(join(folder, "model.safetensors")))
})

test("the tokenizer of the folder writes prompts and ends answers as the model was taught", () => {
  const tokenizer = openTokenizer(folder)
  const config = readModelConfig(folder)
  expect(tokenizer.vocabSize).toBe(config.vocabSize)
  expect(tokenizer.eosTokenIds).toEqual(config.eosTokenIds)
  const rows = demonstrate(tokenizer, [{ prompt: "37+58=", answer: "95" }])
  expect(tokenizer.decode(rows.ids_BL.filter((id) => id !== tokenizer.padTokenId), { skipSpecialTokens: true })).toBe("37+58=95")
  // Each trained position predicts the token after it: the answer and its end.
  expect(tokenizer.decode(rows.ids_BL.filter((_, at) => rows.trained_BL[at - 1] === 1))).toBe("95<|im_end|>")
  expect(tokenizer.hasChatTemplate).toBe(true)
})

describe("the pupil", () => {
  test("drops the carry of the ones and nothing else", () => {
    expect(carelessAnswer(37, 58, 1, () => 0)).toBe("85")
    expect(carelessAnswer(37, 58, 0, () => 0)).toBe("95")
    expect(carelessAnswer(32, 51, 1, () => 0)).toBe("83")
    expect(carelessAnswer(95, 15, 1, () => 0)).toBe("100")
  })
})

describe("the starting accuracy", () => {
  let runtime: TensorRuntime
  beforeAll(async () => {
    runtime = await openDefaultRuntime({ env: process.env, signal: AbortSignal.timeout(60_000), allowInstall: false })
  })
  afterAll(() => runtime.close())

  test("is between 20 % and 60 %, as the card says", () => {
    const config = readModelConfig(folder)
    const weights = openFolderValues(folder, config)
    const policy = createPolicy(runtime, config, weights.values)
    weights.close()
    const held = demonstrate(openTokenizer(folder), Array.from({ length: tasks.heldOut.size }, (_, i) => heldOutExercise(i)))
    const { greedy, sampled } = accuracy(createWarmUp(runtime, policy), held)
    expect(greedy).toBeGreaterThan(0.2)
    expect(greedy).toBeLessThan(0.6)
    const stated = Number(/\| greedy \| ([\d.]+) %/.exec(card)?.[1]) / 100
    expect(Math.abs(greedy - stated)).toBeLessThan(0.01)
    expect(sampled).toBeGreaterThan(0.2)
  }, 60_000)
})
