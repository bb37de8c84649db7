// What a run's config names, opened: prompts, environments, rewards, and what episodes need of them. Shared by training and measuring.
import { resolve } from "node:path"
import type { RunConfig } from "@cohort/config"
import { createHubClient, hubSettings, openDataset } from "@cohort/data"
import type { EnvironmentFactory, PromptRow, RowSource, ToolSet } from "@cohort/env"
import { CohortError } from "@cohort/errors"
import type { InferenceServer, Sampling } from "@cohort/inference"
import type { Registry, SetupContext } from "@cohort/plugin"
import { episodeTokenizer, type EpisodeServices, namedEnvironments, type RewardEntry, systemClock } from "@cohort/rollout"
import { openTokenizer } from "@cohort/tokenizer"

export interface Tasks {
  readonly train: RowSource
  readonly heldOut: RowSource | undefined
  /** What a row's episodes run in. @throws CohortError `dataset_invalid` for a row that asks for an environment that is not there */
  readonly environmentOf: (row: Pick<PromptRow, "id" | "environment">) => EnvironmentFactory | undefined
  /** Tools of every episode; undefined where the config names none. */
  readonly tools: ToolSet | undefined
}

export interface TaskOptions {
  readonly config: RunConfig
  readonly registry: Registry
  readonly projectDir: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/** @throws CohortError `plugin_not_found`, `plugin_invalid`, `dataset_invalid` and others, naming the key of the config that asked. */
export async function openTasks({ config, registry, projectDir, env }: TaskOptions, setup: SetupContext): Promise<Tasks> {
  const { data, environment, environments } = config
  for (const name of config.plugins) await registry.load(name, projectDir, "plugins")
  const isFile = /\.(jsonl|json|parquet)$/.test(data.source)
  const promptOptional = environment !== undefined || environments.length > 0
  const open = (path: string): Promise<RowSource> =>
    openDataset({ path: resolve(projectDir, path), promptColumn: data.promptColumn, promptOptional, hub: createHubClient(hubSettings(env)), signal: setup.signal })
  const named = Object.fromEntries(
    await Promise.all(
      environments.map(async ({ name, use, options }, at) => [name, await registry.environmentFactory(use, setup, { options, askedBy: `environments[${at}].use` })] as const),
    ),
  )
  // Without `environments` the column is one like any other.
  const choose = (otherwise: EnvironmentFactory | undefined): Tasks["environmentOf"] =>
    environments.length === 0 ? () => otherwise : namedEnvironments(named, otherwise)
  const tools = await openTools({ config, registry, projectDir, env }, setup)
  if (!isFile) {
    const tasks = await registry.environment(data.source, setup, { options: data.options, askedBy: "data.source" })
    return { train: tasks.train, heldOut: tasks.heldOut, environmentOf: choose(tasks.environment), tools }
  }
  const episodes = environment === undefined ? undefined : await registry.environmentFactory(environment.use, setup, { options: environment.options, askedBy: "environment.use" })
  const environmentOf = choose(episodes)
  const checked = async (path: string): Promise<RowSource> => {
    const source = await open(path)
    // Rows of a file are in memory: a wrong name is told before anything is started.
    for (let at = 0; at < source.size; at++) environmentOf(source.at(at))
    return source
  }
  return { train: await checked(data.source), heldOut: data.evalSource === undefined ? undefined : await checked(data.evalSource), environmentOf, tools }
}

/** The tools of all entries together, each with its entry's deadline. */
async function openTools({ config, registry }: TaskOptions, setup: SetupContext): Promise<ToolSet | undefined> {
  const all: Record<string, ToolSet[string]> = {}
  const askedBy: Record<string, string> = {}
  for (const [index, { use, options, deadlineMs }] of config.tools.entries()) {
    const key = `tools[${index}].use`
    const { tools } = await registry.tools(use, setup, { options, askedBy: key })
    for (const [name, tool] of Object.entries(tools)) {
      if (Object.hasOwn(all, name))
        throw new CohortError("config_invalid", `two tools are named ${JSON.stringify(name)}: of ${askedBy[name]} and of ${key} = ${JSON.stringify(use)}`, { hint: "A model calls a tool by its name: leave one of them out." })
      all[name] = { ...tool, timeoutMs: tool.timeoutMs ?? deadlineMs }
      askedBy[name] = `${key} = ${JSON.stringify(use)}`
    }
  }
  return Object.keys(all).length === 0 ? undefined : all
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

/** Tokenizer, tools, servers, clock and deadlines of every episode. */
export function episodeServices(config: RunConfig, modelFolder: string, server: InferenceServer, maxModelLength: number, log: (message: string) => void, tools?: ToolSet): EpisodeServices {
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
    ...(tools === undefined ? {} : { tools }),
  }
}

/** Sampling of training rollouts; the seed is set per request. */
export function samplingOf(config: RunConfig): Omit<Sampling, "seed"> {
  const { maxCompletionTokens, temperature, topP, topK, minP, repetitionPenalty } = config.rollout
  return { maxTokens: maxCompletionTokens, temperature, topP, topK, minP, repetitionPenalty, stopTokenIds: [] }
}
