// Will GRPO have a signal here? A model's answers to a sample of prompts, before a run, as pass rate, share of mixed groups and advice.
import { CohortError } from "@cohort/errors"

/** The completions of one prompt. */
export interface PromptOutcome {
  readonly id: string
  /** Total reward of each completion that was scored. */
  readonly rewards: readonly number[]
  /** Completions whose first reward gave full marks. */
  readonly passed: number
  readonly truncated: number
  readonly failed: number
  readonly tokens: number
}

export interface PassRateReport {
  readonly prompts: number
  readonly completions: number
  /** Completions with full marks / completions scored. */
  readonly passRate: number
  /** Prompts of which no completion, and of which every completion, had full marks. */
  readonly neverPassed: number
  readonly alwaysPassed: number
  readonly truncatedShare: number
  readonly failedShare: number
  readonly tokensMean: number
  /** Expected share of groups whose rewards differ, by group size. */
  readonly mixedShare: Readonly<Record<number, number>>
  /** The configured group size, and what a step is expected to hold of groups that teach something. */
  readonly groupSize: number
  readonly groupsPerStep: number
  readonly usefulGroupsPerStep: number
  readonly suggestedGroupSize: number
  readonly verdict: "signal" | "weak" | "none"
  /** The verdict in a sentence, with what to change. */
  readonly advice: string
}

const groupSizes = [2, 4, 8, 16, 32, 64]
/** From this share of mixed groups on, larger groups cost more than they bring. */
const enough = 0.6
/** A doubling that adds less than this is not worth its completions. */
const leastGain = 0.1

/**
 * Reads outcomes.
 *
 * The share of mixed groups of size G for a prompt whose n completions take value v c_v times is 1 - sum over v of C(c_v, G) / C(n, G), the unbiased estimate, where
 * G <= n; beyond, 1 - sum (c_v / n)^G, which is too low for prompts that have not yet been seen to differ.
 *
 * @throws CohortError `reward_failed` when no prompt has two scored completions
 * @example
 * passRateOf(outcomes, { groupSize: 8, groupsPerStep: 8 }).verdict // "signal"
 */
export function passRateOf(outcomes: readonly PromptOutcome[], run: { readonly groupSize: number; readonly groupsPerStep: number }): PassRateReport {
  const scored = outcomes.filter(({ rewards }) => rewards.length >= 2)
  if (scored.length === 0) throw new CohortError("reward_failed", `of ${outcomes.length} prompts none has two scored completions`, { hint: "Look at the warnings above: generation or rewards failed." })
  const total = (of: (outcome: PromptOutcome) => number): number => scored.reduce((sum, outcome) => sum + of(outcome), 0)
  const completions = total(({ rewards }) => rewards.length)
  const all = outcomes.reduce((sum, { rewards, failed }) => sum + rewards.length + failed, 0)
  const mixedAt = (size: number): number => total(({ rewards }) => mixedShareOf(rewards, size)) / scored.length
  const sizes = [...new Set([...groupSizes, run.groupSize])].toSorted((a, b) => a - b)
  const mixedShare = Object.fromEntries(sizes.map((size) => [size, mixedAt(size)]))
  const passRate = total(({ passed }) => passed) / completions
  const mixed = mixedAt(run.groupSize)
  const suggestedGroupSize = suggestSize(mixedAt)
  const verdict = mixed >= 0.2 ? "signal" : mixed >= 0.05 ? "weak" : "none"
  const figures = {
    prompts: scored.length, completions, passRate,
    neverPassed: scored.filter(({ passed }) => passed === 0).length,
    alwaysPassed: scored.filter(({ passed, rewards }) => passed === rewards.length).length,
    truncatedShare: total(({ truncated }) => truncated) / completions,
    failedShare: outcomes.reduce((sum, { failed }) => sum + failed, 0) / Math.max(1, all),
    tokensMean: total(({ tokens }) => tokens) / completions,
  }
  return { ...figures, mixedShare, ...run, usefulGroupsPerStep: mixed * run.groupsPerStep, suggestedGroupSize, verdict, advice: adviceFor(verdict, figures, mixed, run.groupSize, suggestedGroupSize) }
}

/** Chance that G completions out of those seen do not all have the same reward. */
export function mixedShareOf(rewards: readonly number[], size: number): number {
  const counts = [...Map.groupBy(rewards, (reward) => reward).values()].map(({ length }) => length)
  const n = rewards.length
  const same = counts.reduce((sum, count) => {
    if (size > n) return sum + (count / n) ** size
    let chance = 1
    for (let i = 0; i < size; i++) chance *= Math.max(0, count - i) / (n - i)
    return sum + chance
  }, 0)
  return 1 - same
}

function suggestSize(mixedAt: (size: number) => number): number {
  for (const [index, size] of groupSizes.entries()) {
    const next = groupSizes[index + 1]
    const here = mixedAt(size)
    if (here >= enough || next === undefined) return Math.max(4, size)
    if (size >= 8 && mixedAt(next) < here * (1 + leastGain)) return size
  }
  return 8
}

function adviceFor(
  verdict: PassRateReport["verdict"],
  figures: Pick<PassRateReport, "passRate" | "truncatedShare" | "neverPassed" | "alwaysPassed" | "prompts">,
  mixed: number,
  groupSize: number,
  suggested: number,
): string {
  const percent = (share: number): string => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`
  const cut = figures.truncatedShare > 0.3 ? ` ${percent(figures.truncatedShare)} of the completions are cut: raise rollout.maxCompletionTokens first.` : ""
  const size = suggested === groupSize ? "" : ` A group size of ${suggested} fits this pass rate better than ${groupSize}.`
  const easy = figures.alwaysPassed > figures.neverPassed
  const why = easy ? "the model already solves these prompts: take harder ones" : "the model solves almost none of these prompts: take easier ones, give partial credit, or start from a better model"
  if (verdict === "signal") return `GRPO will have a signal: ${percent(mixed)} of groups of ${groupSize} are mixed.${size}${cut}`
  if (verdict === "weak") return `The signal is weak: only ${percent(mixed)} of groups of ${groupSize} are mixed; ${why}.${size}${cut}`
  return `GRPO will learn next to nothing: ${percent(mixed)} of groups of ${groupSize} are mixed; ${why}.${cut}`
}
