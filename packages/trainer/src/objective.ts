// From the config to what the loss package takes: the objective of a window, and how rewards become advantages.
import type { Sample } from "@cohort/batching"
import type { RunConfig } from "@cohort/config"
import { CohortError } from "@cohort/errors"
import { adaptEntropy, advantageScope, advantagesOf, appliedEntropyCoefficient, type EntropyControl, objectiveDemands, objectiveSpec, type ObjectiveSpec, type WindowTotals } from "@cohort/loss"
import type { AdvantageRule, SampleGroup } from "@cohort/rollout"

/**
 * Refuses what the training loop cannot do yet, before anything is started.
 * @throws CohortError `config_invalid` naming each key, its value and the way out
 */
export function checkObjective(config: RunConfig): void {
  const { klIn, klCoefficient, reference, topEntropyShare } = config.objective
  const problems: string[] = []
  if (klCoefficient > 0 && klIn === "reward") problems.push('objective.klIn is "reward": put the KL in the loss with "loss"')
  if (klCoefficient > 0 && reference === "moving") problems.push('objective.reference is "moving": use "start"')
  if (topEntropyShare < 1) problems.push(`objective.topEntropyShare is ${topEntropyShare}: use 1, which trains all tokens`)
  if (problems.length > 0) throw new CohortError("config_invalid", `this trainer cannot do: ${problems.join("; ")}`, { details: { problems } })
}

/** The objective of one optimizer window. */
export function objectiveOf(config: RunConfig, totals: Pick<WindowTotals, "trainedTokens" | "completions">, entropy: EntropyControl): ObjectiveSpec {
  const { entropyControl } = objectiveDemands(config.objective)
  return objectiveSpec(config.objective, {
    ...totals,
    maxCompletionTokens: config.rollout.maxCompletionTokens,
    temperature: config.rollout.temperature,
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

/** Advantages within a group. Rules that look at the whole step give 0 here: the window fills them in. */
export function advantageRule(config: RunConfig): AdvantageRule {
  if (advantageScope(config.objective) === "window") return (rewards) => rewards.map(() => 0)
  return (rewards) => {
    const [group] = advantagesOf([{ totals: rewards }], config.objective)
    return group === undefined || group.dropped ? null : group.advantages.map((advantage) => advantage ?? 0)
  }
}

/** The samples of a window as they are trained: window-wide advantages filled in, truncated completions masked when the config says so. */
export function windowSamples(config: RunConfig, groups: readonly SampleGroup[]): Sample[] {
  const advantages = advantageScope(config.objective) === "window" ? windowAdvantages(config, groups) : undefined
  return groups.flatMap((group, index) => {
    // A rollout may have several rows; its members are in the order of their first row.
    const members = [...new Set(group.samples.map((sample) => sample.rolloutId))]
    return group.samples.map((sample) => {
      const masked = config.objective.maskTruncated && sample.truncated
      if (advantages === undefined && !masked) return sample
      const advantage = advantages === undefined ? sample.advantage : (advantages[index]![members.indexOf(sample.rolloutId)] ?? 0)
      return { ...sample, advantage, ...(masked ? { lossMask: new Uint8Array(sample.lossMask.length) } : {}) }
    })
  })
}

function windowAdvantages(config: RunConfig, groups: readonly SampleGroup[]): readonly (readonly (number | null)[])[] {
  const names = [...new Set(groups.flatMap((group) => group.memberParts.flatMap((parts) => Object.keys(parts).filter((name) => !name.includes("/")))))]
  const weightOf = (name: string): number => config.rewards.find((reward) => reward.use === name || name.startsWith(`${reward.use}/`))?.weight ?? 1
  const settings = groups.map((group) => ({ totals: group.rewards, parts: group.memberParts.map((parts) => names.map((name) => parts[name] ?? null)) }))
  return advantagesOf(settings, config.objective, names.map(weightOf)).map((group) => group.advantages)
}
