// What a run's config names, opened: prompts, environments, rewards, and what episodes need of them. Shared by training and measuring.
import { resolve } from "node:path"
import type { RunConfig } from "@cohort/config"
import { createHubClient, hubSettings, openDataset } from "@cohort/data"
import type { EnvironmentFactory, RowSource } from "@cohort/env"
import type { InferenceServer, Sampling } from "@cohort/inference"
import type { Registry, SetupContext } from "@cohort/plugin"
import { episodeTokenizer, type EpisodeServices, type RewardEntry, systemClock } from "@cohort/rollout"
import { openTokenizer } from "@cohort/tokenizer"

export interface Tasks {
  readonly train: RowSource
  readonly heldOut: RowSource | undefined
  readonly environment: EnvironmentFactory | undefined
}

export interface TaskOptions {
  readonly config: RunConfig
  readonly registry: Registry
  readonly projectDir: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/** @throws CohortError `plugin_not_found`, `plugin_invalid`, `dataset_invalid` and others, naming the key of the config that asked. */
export async function openTasks({ config, registry, projectDir, env }: TaskOptions, setup: SetupContext): Promise<Tasks> {
  const { data, environment } = config
  for (const name of config.plugins) await registry.load(name, projectDir, "plugins")
  const isFile = /\.(jsonl|json|parquet)$/.test(data.source)
  const open = (path: string): Promise<RowSource> =>
    openDataset({ path: resolve(projectDir, path), promptColumn: data.promptColumn, hub: createHubClient(hubSettings(env)), signal: setup.signal })
  if (!isFile) {
    const tasks = await registry.environment(data.source, setup, { options: data.options, askedBy: "data.source" })
    return { train: tasks.train, heldOut: tasks.heldOut, environment: tasks.environment }
  }
  const episodes = environment === undefined ? undefined : await registry.environment(environment.use, setup, { options: environment.options, askedBy: "environment.use" })
  return { train: await open(data.source), heldOut: data.evalSource === undefined ? undefined : await open(data.evalSource), environment: episodes?.environment }
}

/** The rewards in the order of the config; `fullMarks` is the most that the first can give. */
export async function openRewards({ config, registry }: TaskOptions, setup: SetupContext): Promise<{ readonly entries: readonly RewardEntry[]; readonly fullMarks: number }> {
  const loaded = await Promise.all(
    config.rewards.map(async (use, index) => ({ use, reward: await registry.reward(use.use, setup, { options: use.options, askedBy: `rewards[${index}].use` }) })),
  )
  return {
    entries: loaded.map(({ use, reward }) => ({ name: reward.name, weight: use.weight, reward: reward.reward, timeoutMs: use.deadlineMs, maxAttempts: use.retries + 1, onFailure: use.onFailure })),
    fullMarks: loaded[0]?.reward.range?.[1] ?? 1,
  }
}

/** Tokenizer, servers, clock and deadlines of every episode. */
export function episodeServices(config: RunConfig, modelFolder: string, server: InferenceServer, maxModelLength: number, log: (message: string) => void): EpisodeServices {
  const { rollout } = config
  return {
    tokenizer: episodeTokenizer(openTokenizer(modelFolder), rollout.chatTemplateArgs as Parameters<typeof episodeTokenizer>[1]),
    server,
    clock: systemClock,
    limits: {
      maxModelLength, maxPromptTokens: config.data.maxPromptTokens, maxTurns: rollout.maxTurns,
      generateTimeoutMs: rollout.generateTimeoutMs, toolTimeoutMs: 60_000, environmentTimeoutMs: 60_000,
      episodeTimeoutMs: rollout.maxTurns * rollout.generateTimeoutMs, forkThresholdTokens: rollout.forkThresholdTokens,
      ...(rollout.maxToolRounds === undefined ? {} : { maxToolRounds: rollout.maxToolRounds }),
      ...(rollout.maxEpisodeTokens === undefined ? {} : { maxEpisodeTokens: rollout.maxEpisodeTokens }),
    },
    log,
    turnMode: rollout.turnTokens === "keep" ? "tokens" : "messages",
  }
}

/** Sampling of training rollouts; the seed is set per request. */
export function samplingOf(config: RunConfig): Omit<Sampling, "seed"> {
  const { maxCompletionTokens, temperature, topP, topK, minP, repetitionPenalty } = config.rollout
  return { maxTokens: maxCompletionTokens, temperature, topP, topK, minP, repetitionPenalty, stopTokenIds: [] }
}
