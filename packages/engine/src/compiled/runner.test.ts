// Both runners against the model's full forward pass: every cached token must look as if the whole sequence had been computed anew.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createPolicy, type Policy, randomValues, saveModelFolder } from "@cohort/model"
import type { TensorRuntime } from "@cohort/tensor"
import type { ModelRunner } from "../runner.ts"
import { createCompiledRunner, type CompiledRunnerOptions } from "./create-runner.ts"
import { createFallbackRunner } from "./fallback.ts"
import { forwardLogProbs, type Generated, generate, libraryPath, lively, slotInput, smallModels, testRuntime } from "./testing/models.ts"

const runners: readonly (readonly [string, (options: CompiledRunnerOptions) => ModelRunner])[] = [
  ["fallback", createFallbackRunner],
  ...(libraryPath === undefined ? [] : ([
        ["loop", (options) => createCompiledRunner({ ...options, form: "loop" })],
        ["loop in lanes", (options) => createCompiledRunner({ ...options, form: "loop", lanes: 2 })],
        ["mixed", (options) => createCompiledRunner({ ...options, form: "mixed" })],
        ["mixed in lanes", (options) => createCompiledRunner({ ...options, form: "mixed", lanes: 2 })],
      ] as const satisfies readonly (readonly [string, (options: CompiledRunnerOptions) => ModelRunner])[])),
]
const sizes = { slots: 5, maxModelLength: 96, maxChunk: 8 }
const prompts = [[1, 2, 3, 4, 5], [7], Array.from({ length: 33 }, (_, i) => (i * 7) % 50)]

let runtime: TensorRuntime
beforeAll(async () => {
  runtime = await testRuntime()
})

/** Largest difference to the forward pass, after checking that greedy rows took its best token. */
function compare(policy: Policy, generated: readonly Generated[]): number {
  let worst = 0
  for (const { ids, logProbs, promptLength } of generated) {
    const rows = forwardLogProbs(policy, ids)
    logProbs.forEach((logProb, k) => {
      const row = rows[promptLength + k - 1]!
      const id = ids[promptLength + k]!
      expect(Math.max(...row) - row[id]!).toBeLessThan(1e-4)
      worst = Math.max(worst, Math.abs(logProb - row[id]!))
    })
  }
  return worst
}

describe.each(runners)("%s runner", (_, create) => {
  test.each(Object.entries(smallModels))("agrees with the forward pass: %s", async (_, config) => {
    const policy = createPolicy(runtime, config, lively(randomValues(config, 3)))
    const runner = create({ runtime, model: { policy }, ...sizes })
    // Chunks cross a length bucket and a chunk border; slots are out of order.
    const generated = await generate(runner, prompts, [4, 0, 2], [8, 4, 8, 8, 1, 8])
    expect(compare(policy, generated)).toBeLessThan(1e-4)
    // A slot that held a long sequence takes a short one.
    expect(compare(policy, await generate(runner, [[9, 8, 7]], [2], [8]))).toBeLessThan(1e-4)
    const ids = generated[2]!.ids
    const scores = await runner.score(Int32Array.from(ids))
    const rows = forwardLogProbs(policy, ids)
    expect(scores[0]).toBe(0)
    for (let i = 1; i < ids.length; i++) expect(Math.abs(scores[i]! - rows[i - 1]![ids[i]!]!)).toBeLessThan(1e-4)
    await runner.close()
    policy.dispose()
  }, 60_000)

  describe("on one model", () => {
    const config = Object.values(smallModels)[0]!
    let policy: Policy
    let runner: ModelRunner
    beforeAll(() => {
      policy = createPolicy(runtime, config, lively(randomValues(config, 5)))
      runner = create({ runtime, model: { policy }, ...sizes })
    })
    afterAll(async () => {
      await runner.close()
      policy.dispose()
    })

    test("completions of one prompt share a prefill, and draw by their own seeds whoever is beside them", async () => {
      const prompt = [3, 1, 4, 1, 5]
      await runner.prefill([{ tokenIds: Int32Array.from(prompt.slice(0, -1)), slots: [0, 1, 3] }])
      const input = (slot: number, seed: number) => slotInput({ slot, lastToken: 5, position: 4, temperature: 1.3, seed })
      const together = await runner.decode([input(3, 7), input(0, 8), input(1, 9)], 8, 0)
      const alone = await runner.decode([input(1, 9)], 8, 0)
      expect([...alone.tokenIds]).toEqual([...together.tokenIds.subarray(16)])
      expect([...together.tokenIds.subarray(0, 8)]).not.toEqual([...together.tokenIds.subarray(8, 16)])
      const ids = [...prompt, ...alone.tokenIds]
      const rows = forwardLogProbs(policy, ids, 1.3)
      alone.logProbs.forEach((logProb, k) => expect(Math.abs(logProb - rows[4 + k]![ids[5 + k]!]!)).toBeLessThan(1e-4))
    })

    test("rows with settings of their own draw together as they do alone", async () => {
      const settings = [
        {},
        { temperature: 1.2, topK: 5 },
        { temperature: 0.8, topP: 0.7, repetitionPenalty: 1.5 },
        { temperature: 1.5, minP: 0.1 },
        { temperature: 1, repetitionPenalty: 1.1 },
      ]
      const rows = settings.map((_, i) => [i + 1, 2 * i + 1, 7])
      const of = (i: number) => ({ seed: 40 + i, ...settings[i] })
      const together = await generate(runner, rows, [3, 0, 4, 1, 2], [8, 8], of)
      for (const [i, row] of rows.entries()) {
        const [alone] = await generate(runner, [row], [i], [8, 8], () => of(i))
        expect(alone!.ids).toEqual(together[i]!.ids)
        alone!.logProbs.forEach((logProb, k) => expect(Math.abs(logProb - together[i]!.logProbs[k]!)).toBeLessThan(1e-4))
      }
    })

    test("chunks of any length make the same sequence", async () => {
      const settings = () => ({ temperature: 0.9, seed: -123 })
      const [long] = await generate(runner, [[2, 3]], [1], [8, 8], settings)
      const [short] = await generate(runner, [[2, 3]], [1], [1, 2, 1, 4, 8], settings)
      expect(short!.ids).toEqual(long!.ids)
    })

    test("the penalty counts the tokens of its own chunk", async () => {
      const settings = () => ({ repetitionPenalty: 1e6 })
      const [penalized] = await generate(runner, [[2, 3]], [1], [8], settings)
      expect(new Set(penalized!.ids).size).toBe(10)
    })

    test("top tokens come in order, with log-probs of the distribution drawn from", async () => {
      await runner.prefill([{ tokenIds: Int32Array.of(1, 2), slots: [0] }])
      const chunk = await runner.decode([slotInput({ slot: 0, lastToken: 3, position: 2 })], 1, 3)
      const row = forwardLogProbs(policy, [1, 2, 3])[2]!
      const order = row.map((_, id) => id).toSorted((a, b) => row[b]! - row[a]!)
      expect([...chunk.topTokenIds!]).toEqual(order.slice(0, 3))
      chunk.topLogProbs!.forEach((logProb, i) => expect(Math.abs(logProb - row[order[i]!]!)).toBeLessThan(1e-4))
    })

    test("ids, slots and positions outside the arrays are refused by name", async () => {
      const decode = (given: Parameters<typeof slotInput>[0], steps = 1) => runner.decode([slotInput(given)], steps, 0)
      await expect(decode({ slot: 9, lastToken: 1, position: 0 })).rejects.toThrow("no slot 9")
      await expect(decode({ slot: 0, lastToken: 53, position: 0 })).rejects.toThrow("token 53")
      await expect(decode({ slot: 0, lastToken: 1, position: 95 }, 2)).rejects.toThrow("pass the context of 96")
      await expect(decode({ slot: 0, lastToken: 1, position: 0 }, 3)).rejects.toThrow("3 steps")
      await expect(runner.prefill([{ tokenIds: new Int32Array(97), slots: [0] }])).rejects.toThrow("97 tokens")
    })

    test("a context shorter than a chunk bounds the chunks, and sizes below one are refused", async () => {
      const short = create({ runtime, model: { policy }, slots: 1, maxModelLength: 6 })
      expect(short.info.chunkSizes.at(-1)).toBe(6)
      await short.close()
      expect(() => create({ runtime, model: { policy }, ...sizes, slots: 0 })).toThrow("slots is 0")
    })

    test("weights that the trainer owns are not loaded over", async () => {
      await expect(runner.loadWeights("/nowhere")).rejects.toThrow("shares the trainer's resident weights")
    })
  })

  test("a long prompt reaches more slots than one write holds", async () => {
    const [config] = Object.values(smallModels)
    const policy = createPolicy(runtime, config!, lively(randomValues(config!, 3)))
    // 80 tokens into 60 slots are more than the 4,096 of a write.
    const runner = create({ runtime, model: { policy }, slots: 60, maxModelLength: 96, maxChunk: 1 })
    const prompt = Array.from({ length: 81 }, (_, i) => (i * 7) % 50)
    const slots = Array.from({ length: 60 }, (_, i) => i)
    await runner.prefill([{ tokenIds: Int32Array.from(prompt.slice(0, -1)), slots }])
    const { tokenIds, logProbs } = await runner.decode(slots.map((slot) => slotInput({ slot, lastToken: prompt.at(-1)!, position: prompt.length - 1 })), 1, 0)
    const [last] = forwardLogProbs(policy, prompt).slice(-1)
    for (const slot of slots) expect(Math.abs(logProbs[slot]! - last![tokenIds[slot]!]!)).toBeLessThan(1e-4)
    await runner.close()
    policy.dispose()
  })

  test("loads the weights of a folder in place, or changes nothing", async () => {
    const config = Object.values(smallModels)[1]!
    const folder = mkdtempSync(join(tmpdir(), "cohort-runner-"))
    const save = async (name: string, seed: number): Promise<Policy> => {
      const policy = createPolicy(runtime, config, lively(randomValues(config, seed)))
      mkdirSync(join(folder, name))
      await saveModelFolder(join(folder, name), policy)
      return policy
    }
    try {
      const first = await save("first", 1)
      const second = await save("second", 2)
      const other = Object.values(smallModels)[2]!
      const wrong = createPolicy(runtime, other, randomValues(other, 1))
      mkdirSync(join(folder, "wrong"))
      await saveModelFolder(join(folder, "wrong"), wrong)
      const runner = create({ runtime, model: { folder: join(folder, "first") }, ...sizes })
      expect(compare(first, await generate(runner, [[1, 2, 3]], [0], [8]))).toBeLessThan(1e-4)
      await expect(runner.loadWeights(join(folder, "wrong"))).rejects.toThrow("missing")
      expect(compare(first, await generate(runner, [[1, 2, 3]], [0], [8]))).toBeLessThan(1e-4)
      await runner.loadWeights(join(folder, "second"))
      expect(compare(second, await generate(runner, [[1, 2, 3]], [0], [8]))).toBeLessThan(1e-4)
      await runner.close()
      for (const policy of [first, second, wrong]) policy.dispose()
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
