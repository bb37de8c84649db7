// From the config to what the loss package takes: the objective of a window, and the advantage rule of a group.
import type { RunConfig } from "@cohort/config"
import { groupAdvantages, type ObjectiveSpec, type StandardDeviation, windowNormalizer, type WindowTotals } from "@cohort/loss"
import type { AdvantageRule, SampleGroup } from "@cohort/rollout"
import type { Sample } from "@cohort/batching"

/** Added to the deviation: the pairs that TRL uses (1e-4 with the sample deviation, 1e-8 with the population's). */
const epsilons: Readonly<Record<StandardDeviation, number>> = { sample: 1e-4, population: 1e-8 }

/** The objective of one optimizer window. */
export function objectiveOf(config: RunConfig, totals: Pick<WindowTotals, "trainedTokens" | "completions">): ObjectiveSpec {
  const { kind, epsilonLow, epsilonHigh } = config.objective
  return {
    kind,
    epsilonLow,
    epsilonHigh,
    temperature: config.rollout.temperature,
    normalizer: windowNormalizer(kind, { ...totals, maxCompletionTokens: config.rollout.maxCompletionTokens }),
  }
}

/** Advantages within a group. With `batch` scaling they are only centred here: the window divides them. */
export function advantageRule(config: RunConfig): AdvantageRule {
  const { advantageScale, standardDeviation } = config.objective
  const options = { scale: advantageScale === "group" ? "group" : "none", standardDeviation, epsilon: epsilons[standardDeviation] } as const
  return (rewards) => {
    const [group] = groupAdvantages([rewards], options)
    return group === undefined || group.dropped ? null : group.advantages.map((advantage) => advantage ?? 0)
  }
}

/** The samples of a window as they are trained: batch scaling applied, truncated completions masked when the config says so. */
export function windowSamples(config: RunConfig, groups: readonly SampleGroup[]): Sample[] {
  const scale = config.objective.advantageScale === "batch" ? batchDivisor(config, groups) : 1
  return groups.flatMap((group) =>
    group.samples.map((sample) => {
      const masked = config.objective.maskTruncated && sample.truncated
      if (scale === 1 && !masked) return sample
      return { ...sample, advantage: sample.advantage / scale, ...(masked ? { lossMask: new Uint8Array(sample.lossMask.length) } : {}) }
    }),
  )
}

function batchDivisor(config: RunConfig, groups: readonly SampleGroup[]): number {
  const rewards = groups.flatMap((group) => group.rewards)
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
  const squares = rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0)
  const { standardDeviation } = config.objective
  return Math.sqrt(squares / (standardDeviation === "sample" ? Math.max(1, rewards.length - 1) : rewards.length)) + epsilons[standardDeviation]
}
