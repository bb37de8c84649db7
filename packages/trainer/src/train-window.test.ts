import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { tensor2d, tidy } from "@tensorflow/tfjs-core"
import type { RunConfigInput } from "@cohort/config"
import { hiddenStates, logits } from "@cohort/model"
import type { SampleGroup } from "@cohort/rollout"
import { library, openBackend, parametersOf, tinyConfig, tinyFolder, tinyGroup, trainOn, vocabulary } from "../test/tiny-run.ts"

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

  test("every pass over the batch chooses anew, and ratios start at the log-probs before the first", async () => {
    const { figures } = await trained({ topEntropyShare: 0.5, oldPolicy: "proximal" }, groups, 3)
    expect(figures["masked"]).toBeCloseTo(0.5, 6)
    expect(figures["ratio/mean"]).toBeCloseTo(1, 5)
  })
})
