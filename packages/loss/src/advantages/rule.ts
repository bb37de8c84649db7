// The choice of estimator as settings, so that a run names one and a caller applies it without knowing which it is.
import { CohortError } from "@cohort/errors"
import { gdpoAdvantages } from "./gdpo.ts"
import { groupAdvantages } from "./group.ts"
import { reinforcePlusPlusAdvantages } from "./reinforce-plus-plus.ts"
import { rlooAdvantages } from "./rloo.ts"
import type { GroupAdvantages, Scores } from "./scores.ts"
import type { StandardDeviation } from "./spread.ts"

/** Names of the estimators; see docs/objectives/advantages.md. */
export type AdvantageEstimator = "group" | "rloo" | "reinforce++" | "reinforce++baseline" | "gdpo"

/** The advantage part of a run's `objective` section. */
export interface AdvantageSettings {
  readonly advantage: AdvantageEstimator
  readonly advantageScale: "group" | "batch" | "none"
  readonly standardDeviation: StandardDeviation
  /** Added to deviations; when absent 1e-4 with "sample" and 1e-8 with "population", as TRL's two trainers do. */
  readonly advantageEpsilon?: number
}

/** Rewards of one group of completions. */
export interface GroupRewards {
  /** Weighted total of each member; null where it has none. */
  readonly totals: Scores
  /** Unweighted value of each reward of each member, members first; gdpo needs it. */
  readonly parts?: readonly Scores[]
}

/**
 * Whether a group's advantages follow from its own rewards, or from those of the whole optimizer step ("window"), which must then be complete
 * before any of its advantages is known.
 */
export function advantageScope({ advantage, advantageScale }: AdvantageSettings): "group" | "window" {
  if (advantage === "rloo") return "group"
  return advantage === "group" && advantageScale !== "batch" ? "group" : "window"
}

/**
 * Advantages of all groups of an optimizer step (or of any groups, where {@link advantageScope} is "group").
 *
 * @param weights of the rewards in `parts`; gdpo only
 * @throws CohortError `numeric` for a reward that is not finite, `internal` when gdpo gets no parts.
 * @example
 * advantagesOf([{ totals: [1, 0, 0] }], { advantage: "rloo", advantageScale: "group", standardDeviation: "sample" })[0].advantages // [1, -0.5, -0.5]
 */
export function advantagesOf(groups: readonly GroupRewards[], settings: AdvantageSettings, weights: readonly number[] = []): GroupAdvantages[] {
  const { advantage, advantageScale: scale, standardDeviation } = settings
  const epsilon = settings.advantageEpsilon ?? (standardDeviation === "sample" ? 1e-4 : 1e-8)
  const totals = groups.map((group) => group.totals)
  switch (advantage) {
    case "group":
      return groupAdvantages(totals, { scale, standardDeviation, epsilon })
    case "rloo":
      return rlooAdvantages(totals)
    case "reinforce++":
    case "reinforce++baseline":
      return reinforcePlusPlusAdvantages(totals, { baseline: advantage === "reinforce++" ? "none" : "group", standardDeviation, epsilon })
    case "gdpo":
      return gdpoAdvantages(groups.map(partsOf), { weights, standardDeviation, epsilon })
  }
}

/** Members without a total (dropped after a failed reward) take no part. */
function partsOf({ totals, parts }: GroupRewards, index: number): readonly Scores[] {
  if (parts === undefined || parts.length !== totals.length)
    throw new CohortError("internal", `group ${index} has ${parts?.length ?? 0} lists of rewards for ${totals.length} completions`, {
      hint: "gdpo normalises each reward by itself: pass the parts of every member.",
    })
  return parts.map((scores, member) => (totals[member] === null ? scores.map(() => null) : scores))
}
