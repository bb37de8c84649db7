// What a run's config names, opened: prompts, environments, tools, and what episodes need of them. Shared by training and measuring.
import { resolve } from "node:path"
import type { RunConfig } from "@cohort/config"
import { openDataset } from "@cohort/data"
import type { EnvironmentFactory, PromptRow, RowSource, TaskSet, ToolSet } from "@cohort/env"
import { createHubClient, hubSettings } from "@cohort/hub"
import type { InferenceServer, Sampling } from "@cohort/inference"
import type { Registry, SetupContext } from "@cohort/plugin"
import { episodeTokenizer, type EpisodeServices, namedEnvironments, systemClock } from "@cohort/rollout"
import { openTokenizer } from "@cohort/tokenizer"
import { openTools } from "./open-tools.ts"

export interface Tasks {
  readonly train: RowSource
  readonly heldOut: RowSource | undefined
  /** What a row's episodes run in. @throws CohortError `dataset_invalid` for a row that asks for an environment that is not there */
  readonly environmentOf: (row: Pick<PromptRow, "id" | "environment">) => EnvironmentFactory | undefined
  /** Tools of every episode; undefined where the config names none. */
  readonly tools: ToolSet | undefined
  /** Processes that tools run in. */
  readonly pids: () => readonly number[]
  close(): Promise<void>
}

export interface TaskOptions {
  readonly config: RunConfig
  readonly registry: Registry
  readonly projectDir: string
  readonly env: Readonly<Record<string, string | undefined>>
}

const isFile = (source: string): boolean => /\.(jsonl|json|parquet)$/.test(source)

/** @throws CohortError `plugin_not_found`, `plugin_invalid`, `dataset_invalid` and others, naming the key of the config that asked. */
export async function openTasks(options: TaskOptions, setup: SetupContext): Promise<Tasks> {
  const { config: { data, environment, environments }, projectDir, env } = options
  const { made, environmentOf } = await openEnvironments(options, setup)
  const promptOptional = environment !== undefined || environments.length > 0
  const checked = async (path: string): Promise<RowSource> => {
    const source = await openDataset({ path: resolve(projectDir, path), promptColumn: data.promptColumn, promptOptional, hub: createHubClient(hubSettings(env)), signal: setup.signal })
    // Rows of a file are in memory: a wrong name is told before anything is started.
    for (let at = 0; at < source.size; at++) environmentOf(source.at(at))
    return source
  }
  const train = made === undefined ? await checked(data.source) : made.train
  const heldOut = made !== undefined ? made.heldOut : data.evalSource === undefined ? undefined : await checked(data.evalSource)
  return { train, heldOut, environmentOf, ...(await openTools(options, setup)) }
}

/** What episodes need of the tasks, without the rows of a file. @throws as `openTasks` */
export async function openEpisodes(options: TaskOptions, setup: SetupContext): Promise<Pick<Tasks, "environmentOf" | "tools" | "pids" | "close">> {
  const { environmentOf } = await openEnvironments(options, setup)
  return { environmentOf, ...(await openTools(options, setup)) }
}

/** What episodes run in, and where a plugin makes the prompts, those too. */
async function openEnvironments({ config, registry, projectDir }: TaskOptions, setup: SetupContext): Promise<Pick<Tasks, "environmentOf"> & { readonly made: TaskSet | undefined }> {
  const { data, environment, environments } = config
  for (const name of config.plugins) await registry.load(name, projectDir, "plugins")
  const named = Object.fromEntries(
    await Promise.all(
      environments.map(async ({ name, use, options }, at) => [name, await registry.environmentFactory(use, setup, { options, askedBy: `environments[${at}].use` })] as const),
    ),
  )
  // Without `environments` the column is one like any other.
  const choose = (otherwise: EnvironmentFactory | undefined): Tasks["environmentOf"] =>
    environments.length === 0 ? () => otherwise : namedEnvironments(named, otherwise)
  if (!isFile(data.source)) {
    const made = await registry.environment(data.source, setup, { options: data.options, askedBy: "data.source" })
    return { made, environmentOf: choose(made.environment) }
  }
  const episodes = environment === undefined ? undefined : await registry.environmentFactory(environment.use, setup, { options: environment.options, askedBy: "environment.use" })
  return { made: undefined, environmentOf: choose(episodes) }
}

/** Tokenizer, tools, servers, clock and deadlines of every episode. */
export function episodeServices(config: RunConfig, modelFolder: string, server: Pick<InferenceServer, "generate">, maxModelLength: number, log: (message: string) => void, tools?: ToolSet): EpisodeServices {
  const { rollout } = config
  return {
    tokenizer: episodeTokenizer(openTokenizer(modelFolder), rollout.chatTemplateArgs as Parameters<typeof episodeTokenizer>[1]),
    server,
    clock: systemClock,
    limits: {
      maxModelLength, maxPromptTokens: config.data.maxPromptTokens, maxTurns: rollout.maxTurns,
      generateTimeoutMs: rollout.generateTimeoutMs, toolTimeoutMs: rollout.toolTimeoutMs, environmentTimeoutMs: rollout.environmentTimeoutMs,
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
