import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { tensor2d, tidy } from "@tensorflow/tfjs-core"
import { collate } from "@cohort/batching"
import type { RunConfigInput } from "@cohort/config"
import { addMetrics, type ObjectiveMetrics } from "@cohort/loss"
import { hiddenStates, logits } from "@cohort/model"
import type { SampleGroup } from "@cohort/rollout"
import { library, openBackend, parametersOf, tinyConfig, tinyFolder, tinyGroup, trainOn, vocabulary } from "../test/tiny-run.ts"
import { objectiveOf, startEntropy, windowSamples } from "./objective.ts"

type Objective = NonNullable<RunConfigInput["objective"]>

describe.skipIf(library.status !== "found")("the most uncertain tokens", () => {
  let tiny: Awaited<ReturnType<typeof tinyFolder>>
  beforeAll(async () => void (tiny = await tinyFolder()))
  afterAll(() => tiny.remove())

  const groups = [tinyGroup("a", 0, [1, 0]), tinyGroup("b", 1, [0, 1])]

  async function trained(objective: Objective, of: readonly SampleGroup[], iterations = 1) {
    const backend = await openBackend(tiny.folder)
    const figures = await trainOn(backend, tinyConfig({ objective, train: { iterations } }), of)
    const parameters = parametersOf(backend)
    backend.close()
    return { figures: figures[0]!, parameters }
  }

  /** Entropy of each trained token, from the softmax of the starting policy's logits in plain numbers. */
  async function entropiesByHand(): Promise<{ readonly sampleId: string; readonly at: number; readonly entropy: number }[]> {
    const { policy, close } = await openBackend(tiny.folder)
    const found = groups.flatMap(({ samples }) => samples).flatMap(({ id, tokenIds, lossMask }) => {
      const flat = tidy(() => {
        const ids = tensor2d(tokenIds, [1, tokenIds.length], "int32")
        const positions = tensor2d(Int32Array.from(tokenIds.keys()), [1, tokenIds.length], "int32")
        return logits(policy.config, policy.weights(), hiddenStates(policy.config, policy.weights(), ids, positions)).dataSync()
      })
      return [...lossMask.keys()].filter((at) => lossMask[at] === 1).map((at) => {
        const exps = Array.from(flat.slice((at - 1) * vocabulary, at * vocabulary), Math.exp)
        const total = exps.reduce((sum, value) => sum + value, 0)
        return { sampleId: id, at, entropy: -exps.reduce((sum, value) => sum + (value / total) * Math.log(value / total), 0) }
      })
    })
    close()
    return found
  }

  test("only they are trained, chosen over the whole window; divisors stay", async () => {
    const tokens = await entropiesByHand()
    const kept = tokens.toSorted((a, b) => b.entropy - a.entropy).slice(0, 4)
    expect(new Set(kept.map(({ sampleId }) => sampleId)).size).toBeGreaterThan(1)
    // A constant divisor, so that leaving tokens out of the mask by hand changes nothing else.
    const { figures, parameters } = await trained({ kind: "dr_grpo", topEntropyShare: 0.25 }, groups)
    expect(figures["masked"]).toBeCloseTo(0.75, 6)
    expect(figures["entropy"]).toBeCloseTo(tokens.reduce((sum, { entropy }) => sum + entropy, 0) / 16, 5)
    const byHand = groups.map((group) => ({
      ...group,
      samples: group.samples.map((sample) => ({ ...sample, lossMask: sample.lossMask.map((_, at) => (kept.some((token) => token.sampleId === sample.id && token.at === at) ? 1 : 0)) })),
    }))
    const expected = await trained({ kind: "dr_grpo" }, byHand)
    // An update of AdamW is of size 0.01 here, however small the gradient: rounding of the smallest shows in the fifth digit.
    for (const [at, value] of parameters.entries()) expect(value).toBeCloseTo(expected.parameters[at]!, 3)
    const all = await trained({ kind: "dr_grpo" }, groups)
    expect(all.parameters.some((value, at) => Math.abs(value - parameters[at]!) > 1e-3)).toBe(true)
  })

  test("every pass over the batch chooses anew", async () => {
    const { figures } = await trained({ topEntropyShare: 0.5 }, groups, 3)
    expect(figures["masked"]).toBeCloseTo(0.5, 6)
  })
})

describe.skipIf(library.status !== "found")("several passes over a batch", () => {
  let tiny: Awaited<ReturnType<typeof tinyFolder>>
  beforeAll(async () => void (tiny = await tinyFolder()))
  afterAll(() => tiny.remove())

  test("ratios are to the log-probs before the first, the correction to the sampler's; figures are means over the passes", async () => {
    const groups = [tinyGroup("a", 0, [1, 0]), tinyGroup("b", 1, [0, 1])]
    const config = tinyConfig({ objective: { correction: "token_truncate", correctionMax: 2 }, train: { iterations: 3 } })
    const looped = await openBackend(tiny.folder)
    const [figures] = await trainOn(looped, config, groups)
    const parameters = parametersOf(looped)
    looped.close()

    const backend = await openBackend(tiny.folder)
    const samples = windowSamples(config, groups, { rewards: [] })
    const spec = objectiveOf(config, { trainedTokens: 16, completions: 4 }, startEntropy(config))
    const batches = [samples.slice(0, 2), samples.slice(2)].map((rows) => {
      const batch = collate(rows, { rows: 2, length: 8 })
      const proximalLogProbs = Float32Array.from(backend.logProbs(batch, "policy", 1).flatMap((row) => [...row]))
      return { ...batch, proximalLogProbs }
    })
    const passes = [1, 2, 3].map(() => {
      const metrics = batches.map((batch) => backend.forwardBackward(batch, spec)).reduce(addMetrics)
      backend.optimStep({ learningRate: 0.01, maxGradNorm: 1 })
      return metrics
    })
    for (const [at, value] of parametersOf(backend).entries()) expect(value).toBeCloseTo(parameters[at]!, 3)
    backend.close()
    // Nothing has moved before the first pass; later ones differ from it.
    expect(passes[0]!.ratioSum / 16).toBeCloseTo(1, 5)
    expect(Math.abs(passes[2]!.ratioSum / 16 - 1)).toBeGreaterThan(1e-3)
    const mean = (of: (metrics: ObjectiveMetrics) => number): number => passes.reduce((sum, pass) => sum + of(pass), 0) / 3
    expect(figures!["ratio/mean"]).toBeCloseTo(mean(({ ratioSum }) => ratioSum / 16), 4)
    expect(figures!["loss"]).toBeCloseTo(mean(({ loss }) => loss), 4)
    expect(figures!["correction/mean"]).toBeCloseTo(passes[0]!.correctionSum / 16, 4)
    expect(passes[2]!.correctionSum).toBeCloseTo(passes[0]!.correctionSum, 3)
  })
})
