import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { collate, createStepPlanner } from "@cohort/batching"
import type { SampleGroup } from "@cohort/rollout"
import { asTrainer, library, openBackend, parametersOf, tinyConfig, tinyFolder, tinyGroup, trainOn } from "../test/tiny-run.ts"
import { klOfRollouts } from "./kl-penalty.ts"

describe.skipIf(library.status !== "found")("KL in the reward", () => {
  let tiny: Awaited<ReturnType<typeof tinyFolder>>
  beforeAll(async () => void (tiny = await tinyFolder()))
  afterAll(() => tiny.remove())

  /** Groups whose sampler was this far above the starting policy at each token, per rollout. */
  async function groupsAbove(gaps: readonly (readonly number[])[]): Promise<SampleGroup[]> {
    const backend = await openBackend(tiny.folder)
    const groups = [tinyGroup("a", 0, [1, 0]), tinyGroup("b", 1, [1, 1])].map((group, index): SampleGroup => ({
      ...group,
      samples: group.samples.map((sample, member) => {
        const [logProbs] = backend.logProbs(collate([sample], { rows: 1, length: 8 }), "policy", 1)
        const gap = gaps[index * 2 + member]!
        return { ...sample, behaviorLogProbs: Float32Array.from(sample.lossMask, (trained, at) => (trained === 1 ? logProbs![at - 1]! + gap[at - 2]! : 0)) }
      }),
    }))
    backend.close()
    return groups
  }

  async function trained(config: Parameters<typeof tinyConfig>[0], groups: readonly SampleGroup[]) {
    const backend = await openBackend(tiny.folder)
    const figures = await trainOn(backend, tinyConfig(config), groups)
    const parameters = parametersOf(backend)
    backend.close()
    return { figures, parameters }
  }

  const gaps = [[0.5, 0.25, 0, 0.25], [0.1, 0.1, 0.1, 0.1], [0, 0, 0, 0], [0.4, 0.4, 0.4, 0.8]]
  const klOf = [1, 0.4, 0, 2]

  test.each(["group", "reinforce++"] as const)("the step is that of rewards from which the KL was taken off by hand (%s)", async (advantage) => {
    const groups = await groupsAbove(gaps)
    const objective = { advantage, klCoefficient: 0.5, klEstimator: "k1", klIn: "reward" } as const
    const { figures, parameters } = await trained({ objective }, groups)
    expect(figures[0]!["kl/completion"]).toBeCloseTo((1 + 0.4 + 0 + 2) / 4, 5)
    expect(figures[0]!["reward/mean"]).toBe(0.75)

    const { rewards: _, ...first } = groups[0]!
    const { rewards: __, ...second } = groups[1]!
    const byHand = [{ ...first, rewards: [1 - 0.5 * klOf[0]!, 0 - 0.5 * klOf[1]!] }, { ...second, rewards: [1 - 0.5 * klOf[2]!, 1 - 0.5 * klOf[3]!] }]
    const centre = (group: (typeof byHand)[number]): SampleGroup => {
      // What the rollout side computes for this rule: advantages over the group's own rewards; for reinforce++ the window fills them in.
      const mean = (group.rewards[0]! + group.rewards[1]!) / 2
      const deviation = Math.abs(group.rewards[0]! - group.rewards[1]!) / Math.SQRT2
      const scale = advantage === "group" ? 1 / (deviation + 1e-4) : 2
      return { ...group, samples: group.samples.map((sample, member) => ({ ...sample, advantage: (group.rewards[member]! - mean) * scale })) }
    }
    const expected = await trained({ objective: { advantage } }, byHand.map(centre))
    expect(expected.figures[0]!["kl/completion"]).toBeUndefined()
    for (const [at, value] of parameters.entries()) expect(value).toBeCloseTo(expected.parameters[at]!, 5)
    const untouched = await trained({ objective: { advantage } }, groups)
    expect(untouched.parameters.some((value, at) => Math.abs(value - parameters[at]!) > 1e-3)).toBe(true)
  })

  test.each(["rows", "packed"] as const)("rows of a rollout count together (%s)", async (packing) => {
    const [group] = await groupsAbove(gaps)
    const [sample] = group!.samples
    const backend = await openBackend(tiny.folder)
    const forked = { ...group!, samples: [sample!, { ...sample!, id: "a.0/1" }, group!.samples[1]!] }
    const kl = await klOfRollouts({ config: tinyConfig({ objective: { klCoefficient: 1, klEstimator: "k1", klIn: "reward" } }), backend: asTrainer(backend), planner: createStepPlanner({ maxLength: 8, tokenBudget: 32, samplesPerStep: 4, packing }) }, [forked])
    backend.close()
    expect(kl.get("a.0")!).toBeCloseTo(2 * klOf[0]!, 5)
    expect(kl.get("a.1")!).toBeCloseTo(klOf[1]!, 5)
  })
})
