// From the config to what the loss package takes: the objective of a window, and how rewards become advantages.
import type { Sample } from "@cohort/batching"
import type { RunConfig } from "@cohort/config"
import { adaptEntropy, advantageScope, advantagesOf, appliedEntropyCoefficient, type EntropyControl, objectiveDemands, objectiveSpec, type ObjectiveSpec, type WindowFacts, type WindowTotals } from "@cohort/loss"
import type { AdvantageRule, SampleGroup } from "@cohort/rollout"

/**
 * The objective of one optimizer window.
 *
 * @param topEntropy of the window's trained tokens, where only the most uncertain are trained
 */
export function objectiveOf(config: RunConfig, totals: Pick<WindowTotals, "trainedTokens" | "completions">, entropy: EntropyControl, topEntropy?: WindowFacts["topEntropy"]): ObjectiveSpec {
  const { entropyControl } = objectiveDemands(config.objective)
  return objectiveSpec(config.objective, {
    ...totals,
    maxCompletionTokens: config.rollout.maxCompletionTokens,
    temperature: config.rollout.temperature,
    ...(topEntropy === undefined ? {} : { topEntropy }),
    ...(entropyControl === undefined ? {} : { entropyCoefficient: appliedEntropyCoefficient(entropy, entropyControl) }),
  })
}

/** The controller of an adaptive entropy bonus after a step; unchanged where the bonus is fixed. */
export function entropyAfter(config: RunConfig, before: EntropyControl, measured: number): EntropyControl {
  const { entropyControl } = objectiveDemands(config.objective)
  return entropyControl === undefined ? before : adaptEntropy(before, measured, entropyControl)
}

export function startEntropy(config: RunConfig): EntropyControl {
  return { coefficient: config.objective.entropyCoefficient, lastEntropy: null }
}

/**
 * Advantages within a group. Where they follow from the whole step, or from a KL that the trainer takes off, the window gives them later: until then each
 * member has its distance from the group's mean.
 */
export function advantageRule(config: RunConfig): AdvantageRule {
  const settings = isWindowWide(config) ? ({ advantage: "group", advantageScale: "none", standardDeviation: "sample" } as const) : config.objective
  return (rewards) => {
    const [group] = advantagesOf([{ totals: rewards }], settings)
    return group === undefined || group.dropped ? null : group.advantages.map((advantage) => advantage ?? 0)
  }
}

function isWindowWide({ objective }: RunConfig): boolean {
  return advantageScope(objective) === "window" || objectiveDemands(objective).referenceInReward
}

/** Names and weights of a run's rewards, as their members' parts have them. */
export type RewardWeights = readonly { readonly name: string; readonly weight: number }[]

export interface WindowOptions {
  /** The run's rewards; what an environment says of itself counts 1 beside them. For the rules that look at each reward by itself. */
  readonly rewards: RewardWeights
  /** KL of each rollout, nats, where it lowers rewards; a rollout without one has no advantage and leaves its group's mean. */
  readonly kl?: ReadonlyMap<string, number> | undefined
}

/** The samples of a window as they are trained: window-wide advantages filled in, truncated completions masked when the config says so. */
export function windowSamples(config: RunConfig, groups: readonly SampleGroup[], options: WindowOptions): Sample[] {
  const advantages = isWindowWide(config) ? windowAdvantages(config, groups, options) : undefined
  return groups.flatMap((group, index) =>
    group.samples.map((sample) => {
      const masked = config.objective.maskTruncated && sample.truncated
      if (advantages === undefined && !masked) return sample
      const advantage = advantages === undefined ? sample.advantage : (advantages[index]![group.rolloutIds.indexOf(sample.rolloutId)] ?? 0)
      return { ...sample, advantage, ...(masked ? { lossMask: new Uint8Array(sample.lossMask.length) } : {}) }
    }),
  )
}

function windowAdvantages(config: RunConfig, groups: readonly SampleGroup[], { rewards, kl }: WindowOptions): readonly (readonly (number | null)[])[] {
  const columns = [...rewards, { name: "environment", weight: 1 }]
  const penalised = (group: SampleGroup): (number | null)[] =>
    group.rewards.map((reward, member) => {
      const own = kl?.get(group.rolloutIds[member]!)
      return own === undefined ? null : reward - config.objective.klCoefficient * own
    })
  const given = groups.map((group) => ({
    totals: kl === undefined ? group.rewards : penalised(group),
    parts: group.memberParts.map((parts) => columns.map(({ name }) => parts[name] ?? null)),
  }))
  return advantagesOf(given, config.objective, columns.map(({ weight }) => weight)).map((group) => group.advantages)
}
