// The compiled sampler against the one on the host, and both against the distribution that they claim to draw from.
import { describe, expect, test } from "bun:test"
import { tensor, tidy } from "@tensorflow/tfjs-core"
import fc from "fast-check"
import type { SlotInput } from "../runner.ts"
import { drawOnHost } from "./draw.ts"
import { rowArrays } from "./rows.ts"
import { readInputs } from "./decode-shape.ts"
import { sampleRows, vocabularyBlocks } from "./sample.ts"
import { libraryPath, slotInput, testRuntime } from "./testing/models.ts"
import { mix32, uniformPair } from "./uniform.ts"

const off: Partial<SlotInput> = { temperature: 1 }

/** Share of each token in many draws of one distribution. */
function shares(logits: Float32Array, settings: Partial<SlotInput>, draws: number): Float64Array {
  const out = new Float64Array(logits.length)
  for (let i = 0; i < draws; i++) {
    const { tokenId } = drawOnHost(logits, slotInput({ slot: 0, lastToken: 0, position: 0, ...off, ...settings, seed: Math.floor(i / 50) }), [], i % 50, 0)
    out[tokenId] = out[tokenId]! + 1 / draws
  }
  return out
}

describe("on the host", () => {
  const logits = Float32Array.of(2, 0, -1, 1.5, 0.3, -4, 1, -0.2, 0.7, 2)

  test("draws follow the softmax of the scaled logits", () => {
    const found = shares(logits, { temperature: 0.8 }, 40_000)
    const weights = logits.map((x) => Math.exp(x / 0.8))
    const total = weights.reduce((a, b) => a + b, 0)
    found.forEach((share, id) => expect(Math.abs(share - weights[id]! / total)).toBeLessThan(0.012))
  })

  test("truncation keeps what top-k, then top-p, then min-p leave, and log-probs are of what is left", () => {
    const kept = (settings: Partial<SlotInput>): number[] => [...shares(logits, settings, 4000).entries()].filter(([, share]) => share > 0).map(([id]) => id)
    // Ids 0 and 9 tie: top-k of 1 keeps both.
    expect(kept({ topK: 1 })).toEqual([0, 9])
    expect(kept({ topK: 3 })).toEqual([0, 3, 9])
    expect(kept({ topP: 0.5 })).toEqual([0, 9])
    expect(kept({ topP: 0.0001 })).toEqual([0, 9])
    expect(kept({ minP: 0.5 })).toEqual([0, 3, 9])
    const draw = drawOnHost(logits, slotInput({ slot: 0, lastToken: 0, position: 0, temperature: 1, topK: 1 }), [], 3, 3)
    expect(draw.logProb).toBeCloseTo(Math.log(0.5), 6)
    expect(draw.topLogProbs[2]).toBe(-Infinity)
  })

  test("temperature 0 takes the first of the best, with the log-prob of temperature 1", () => {
    const draw = drawOnHost(logits, slotInput({ slot: 0, lastToken: 0, position: 0, temperature: 0, topK: 1 }), [], 0, 0)
    const total = logits.reduce((sum, x) => sum + Math.exp(x), 0)
    expect(draw).toMatchObject({ tokenId: 0 })
    expect(draw.logProb).toBeCloseTo(2 - Math.log(total), 5)
  })

  test("neighbouring seeds and positions have unrelated uniforms", () => {
    const sums = [0, 0, 0]
    const count = 20_000
    for (let i = 0; i < count; i++) {
      const [u, w] = uniformPair(i % 100, Math.floor(i / 100))
      const [next] = uniformPair(i % 100, Math.floor(i / 100) + 1)
      sums[0]! += (u - 0.5) * (w - 0.5)
      sums[1]! += (u - 0.5) * (next - 0.5)
      sums[2]! += u
      expect(u).toBeGreaterThan(0)
      expect(u).toBeLessThan(1)
    }
    expect(Math.abs(sums[0]! / count)).toBeLessThan(0.002)
    expect(Math.abs(sums[1]! / count)).toBeLessThan(0.002)
    expect(Math.abs(sums[2]! / count - 0.5)).toBeLessThan(0.01)
    expect(mix32(0)).toBe(mix32(2 ** 32))
  })
})

test("blocks cover the vocabulary, near its square root", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 200_000 }), (vocabSize) => {
      const { count, size } = vocabularyBlocks(vocabSize)
      expect(count * size).toBeGreaterThanOrEqual(vocabSize)
      expect((count - 1) * size).toBeLessThan(vocabSize)
      expect(Math.max(count, size)).toBeLessThanOrEqual(9 * Math.ceil(Math.sqrt(vocabSize)) + 16)
    }),
    { seed: 3, numRuns: 300 },
  )
})

describe.skipIf(libraryPath === undefined)("compiled", () => {
  const rows = 6
  const setting = fc.record({
    seed: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
    position: fc.integer({ min: 0, max: 5000 }),
    temperature: fc.constantFrom(0, 0.3, 1, 1.7),
    topK: fc.constantFrom(0, 1, 4, 1000),
    topP: fc.constantFrom(1, 0.9, 0.4, 0.01),
    minP: fc.constantFrom(0, 0.05, 0.7),
    repetitionPenalty: fc.constantFrom(1, 1.3, 0.8),
  })

  // A vocabulary that blocks divide, and one that needs padding.
  test.each([60, 53])("tokens and log-probs equal the host's for a vocabulary of %d", async (vocabSize) => {
    const runtime = await testRuntime()
    const raw = runtime.raw!
    const variant = { truncates: true, penalizes: true, top: 3 }
    const program = runtime.compile(
      (logits, ...rest) => {
        const given = readInputs([logits!, logits!, ...rest], variant)
        const [topK, topP, minP] = given.truncation
        const draw = sampleRows(runtime, raw, logits!, {
          seed: given.seeds,
          position: given.positions,
          inverseTemperature: given.inverseTemperature,
          greedy: raw.greater(given.greedyFlags, raw.int(0)),
          truncation: { topK: topK!, topP: topP!, minP: minP! },
          repetition: { penalty: given.penalty[0]!, seen: raw.greater(given.seen!, raw.int(0)) },
        }, variant.top)
        return [draw.ids, draw.logProbs, draw.topIds!, draw.topLogProbs!]
      },
      { name: "sample" },
    )
    let seed = 0
    fc.assert(
      fc.property(fc.array(setting, { minLength: rows, maxLength: rows }), (settings) => {
        const logits = Float32Array.from({ length: rows * vocabSize }, () => ((mix32(seed++) / 2 ** 32) * 2 - 1) * 6)
        const inputs = settings.map((one, slot) => slotInput({ slot, lastToken: 0, history: Int32Array.of(1, 2, 3, slot), ...one }))
        const [ids, logProbs, topIds, topLogProbs] = tidy(() =>
          program(tensor(logits, [rows, vocabSize]), ...rowArrays(inputs, rows, vocabSize, variant).map(({ values, shape, type }) => tensor(values, shape, type))).map((out) => out.dataSync().slice()),
        )
        inputs.forEach((input, row) => {
          const host = drawOnHost(logits.subarray(row * vocabSize, (row + 1) * vocabSize), input, input.history, input.position, 3)
          expect(ids![row]).toBe(host.tokenId)
          expect(Math.abs(logProbs![row]! - host.logProb)).toBeLessThan(1e-4)
          host.topIds.forEach((id, i) => {
            // What is cut off has no order.
            if (host.topLogProbs[i] === -Infinity) return expect(topLogProbs![row * 3 + i]).toBeLessThan(-1e30)
            expect(topIds![row * 3 + i]).toBe(id)
            expect(Math.abs(topLogProbs![row * 3 + i]! - host.topLogProbs[i]!)).toBeLessThan(1e-4)
          })
        })
      }),
      { seed: 11, numRuns: 40 },
    )
    program.dispose()
  }, 30_000)
})
