// A scored group as training rows: advantages from the injected rule, one number per rollout on every row of it.
import type { Sample } from "@cohort/batching"
import type { PromptRow } from "@cohort/env"
import type { Episode, EpisodeEnd } from "./episode.ts"
import { failed, type RolloutFailure } from "./generation.ts"
import type { EpisodeFigures, SampleGroup, VersionedTokens } from "./protocol.ts"
import type { MemberScore } from "./scoring.ts"

/** Rewards of a group's members to one advantage each; null when the group gives none. */
export type AdvantageRule = (rewards: number[]) => number[] | null

/** A rollout and its score. */
export interface ScoredEpisode {
  readonly episode: Episode
  readonly score: Extract<MemberScore, { readonly kind: "scored" }>
}

/** True when all rewards are equal but for rounding: such a group has no learning signal. */
export function hasZeroSpread(rewards: readonly number[]): boolean {
  const low = Math.min(...rewards)
  const high = Math.max(...rewards)
  return high - low <= 1e-9 * Math.max(1, Math.abs(low), Math.abs(high))
}

/**
 * Builds the group that goes to the queue (`queuedAtMs` is set there), or says why there is none.
 *
 * `rewardSpread` is the population standard deviation of the totals. A group without spread gets advantage 0 for all: dividing by
 * its rounding residue would give any number; with `filterZeroSpread` it is dropped instead.
 */
export function buildSampleGroup(
  identity: { readonly id: string; readonly occurrence: number; readonly row: PromptRow; readonly startedAtMs: number },
  members: readonly ScoredEpisode[],
  options: { readonly advantages: AdvantageRule; readonly filterZeroSpread: boolean },
): SampleGroup | RolloutFailure {
  const rewards = members.map(({ score }) => score.total)
  const advantages = hasZeroSpread(rewards) ? rewards.map(() => 0) : options.advantages(rewards)
  if (advantages === null) return failed("advantages_undefined", `no advantages for rewards ${rewards.join(", ")}`, false)
  if (advantages.length !== rewards.length || !advantages.every(Number.isFinite))
    return failed("advantages_undefined", `advantages ${advantages.join(", ")} for rewards ${rewards.join(", ")}`, false)
  // The rule may call more groups unanimous than rounding does; all zeros teach nothing either way.
  if (options.filterZeroSpread && advantages.every((advantage) => advantage === 0))
    return failed("zero_spread", `all ${rewards.length} completions scored ${rewards[0]}`, false)
  const samples = members.flatMap(({ episode }, index) => samplesOf(episode, identity.id, advantages[index]!))
  return {
    ...identity,
    samples,
    rewards,
    rolloutIds: members.map(({ episode }) => episode.rolloutId),
    memberParts: members.map(({ score }) => score.parts),
    rewardMean: mean(rewards),
    rewardSpread: Math.sqrt(mean(rewards.map((reward) => (reward - mean(rewards)) ** 2))),
    rewardParts: meanParts(members),
    oldestVersion: Math.min(...samples.map(oldestVersionOf)),
    trainedTokens: samples.reduce((sum, sample) => sum + trainedTokensOf(sample), 0),
    completionTokens: members.reduce((sum, { episode }) => sum + episode.completionIds.length, 0),
    truncatedShare: mean(members.map(({ episode }) => (episode.truncated ? 1 : 0))),
    repetition: mean(members.map(({ episode }) => repetitionOf(episode.completionIds))),
    episodes: figuresOf(members.map(({ episode }) => episode)),
    queuedAtMs: identity.startedAtMs,
  }
}

function figuresOf(episodes: readonly Episode[]): EpisodeFigures {
  const ends: Partial<Record<EpisodeEnd, number>> = {}
  for (const { endedBy } of episodes) ends[endedBy] = (ends[endedBy] ?? 0) + 1
  const sum = (of: (episode: Episode) => number): number => episodes.reduce((total, episode) => total + of(episode), 0)
  return { turns: sum(({ turns }) => turns), toolCalls: sum(({ toolCalls }) => toolCalls), toolFailures: sum(({ toolFailures }) => toolFailures), ends }
}

/** Share of 4-grams that occurred before; 0 for fewer than two of them. */
export function repetitionOf(ids: Int32Array): number {
  const grams = ids.length - 3
  if (grams < 2) return 0
  const seen = new Set<number>()
  for (let i = 0; i < grams; i++) {
    // Two 32-bit hashes in one 53-bit number: a chance collision moves the share by one gram.
    let low = 0x811c9dc5
    let high = 0x9747b28c
    for (let j = i; j < i + 4; j++) {
      low = Math.imul(low ^ ids[j]!, 0x01000193)
      high = Math.imul(high ^ ids[j]!, 0x5bd1e995) ^ (high >>> 15)
    }
    seen.add((low >>> 0) * 2_097_152 + (high >>> 11))
  }
  return 1 - seen.size / grams
}

/** Oldest policy version among the trained tokens of a sample; -1 when none carries one. */
export function oldestVersionOf(sample: Pick<Sample, "lossMask" | "versions">): number {
  const { lossMask, versions } = sample
  let oldest = -1
  for (let i = 0; i < lossMask.length; i++) {
    const version = versions[i]!
    if (lossMask[i] !== 0 && (oldest === -1 || version < oldest)) oldest = version
  }
  return oldest
}

const versionedTokens = new WeakMap<SampleGroup, readonly VersionedTokens[]>()

/** The versions of a group's samples; counted once per group, since it is asked while the group waits. */
export function versionedTokensOf(group: SampleGroup): readonly VersionedTokens[] {
  let counted = versionedTokens.get(group)
  if (counted === undefined) {
    counted = group.samples.map((sample) => ({ oldestVersion: oldestVersionOf(sample), trainedTokens: trainedTokensOf(sample) }))
    versionedTokens.set(group, counted)
  }
  return counted
}

/** The group with every token older than `version` left out of training; rows keep their tokens as context. */
export function maskedBelow(group: SampleGroup, version: number): SampleGroup {
  const samples = group.samples.map((sample) => ({
    ...sample,
    lossMask: sample.lossMask.map((mask, at) => (mask === 1 && sample.versions[at]! >= version ? 1 : 0)),
    behaviorLogProbs: sample.behaviorLogProbs.map((logProb, at) => (sample.versions[at]! >= version ? logProb : 0)),
    versions: sample.versions.map((of) => (of >= version ? of : -1)),
  }))
  const trained = samples.filter(({ lossMask }) => lossMask.includes(1))
  return {
    ...group,
    samples: trained,
    oldestVersion: Math.min(...trained.map(oldestVersionOf)),
    trainedTokens: trained.reduce((sum, sample) => sum + trainedTokensOf(sample), 0),
  }
}

/** Tokens of a sample that are trained. */
export function trainedTokensOf({ lossMask }: Sample): number {
  let tokens = 0
  for (let i = 0; i < lossMask.length; i++) tokens += lossMask[i]!
  return tokens
}

function samplesOf(episode: Episode, groupId: string, advantage: number): readonly Sample[] {
  return episode.rows.map((row, index) => ({
    ...row,
    id: `${episode.rolloutId}/${index}`,
    groupId,
    rolloutId: episode.rolloutId,
    advantage,
    weight: 1,
    truncated: episode.truncated,
  }))
}

/** Mean per part over the members that have it. */
function meanParts(members: readonly ScoredEpisode[]): Readonly<Record<string, number>> {
  const names = new Set(members.flatMap(({ score }) => Object.keys(score.parts)))
  return Object.fromEntries(
    [...names].map((name) => [name, mean(members.flatMap(({ score }) => (Object.hasOwn(score.parts, name) ? [score.parts[name]!] : [])))]),
  )
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
