// Measures a model before a run: its completions of a sample of the training prompts, by the servers, episodes and rewards that the run would use.
import { mkdtemp, rm } from "node:fs/promises"
import { availableParallelism, tmpdir } from "node:os"
import { join } from "node:path"
import { promptsPerStep } from "@cohort/config"
import { CohortError, messageOf } from "@cohort/errors"
import { waitUntilReady } from "@cohort/inference"
import { folderWarnings } from "@cohort/model"
import { type Episode, type EpisodeServices, runEpisode, scoreEpisodes, seededRandom, seedOf } from "@cohort/rollout"
import { cacheFolder, defaultOpenOptions, systemHost } from "@cohort/tensor"
import { fetchModel } from "./model-folder.ts"
import { passRateOf, type PassRateReport, type PromptOutcome } from "./pass-rate.ts"
import type { RunOptions } from "./run.ts"
import { modelName, openServers, type Servers } from "./servers.ts"
import { episodeServices, openTasks, samplingOf, type Tasks } from "./tasks.ts"
import { openRewards, type Rewards } from "./open-rewards.ts"

/** Sequences that the embedded engine decodes at once. */
const defaultSlots = 32

export interface MeasureOptions extends ServeOptions {
  readonly prompts: number
  /** Completions per prompt. */
  readonly samples: number
}

/**
 * Samples training prompts and says whether GRPO will have a signal on them.
 *
 * @throws CohortError as opening a run does; `reward_failed` when nothing could be scored, `aborted`
 * @example
 * const report = await measurePassRate({ config, registry, projectDir, env, signal, onUpdate, prompts: 64, samples: 16 })
 */
export async function measurePassRate(options: MeasureOptions): Promise<PassRateReport> {
  const { config } = options
  const { folder } = await fetchModel(config.model.path, options)
  return withServedModel(options, folder, async ({ tasks, rewards, services }) => {
    const outcomes = await sampleAll(options, tasks, rewards, services)
    return passRateOf(outcomes, { groupSize: config.rollout.groupSize, groupsPerStep: promptsPerStep(config) })
  })
}

/** What measuring needs of a run, without training. */
export type ServeOptions = Pick<RunOptions, "config" | "registry" | "projectDir" | "env" | "signal" | "onUpdate">

export interface ServedModel {
  readonly tasks: Tasks
  readonly rewards: Rewards
  readonly services: EpisodeServices
}

/** Opens what the config names around a model that is served, runs `body`, and takes it all apart again. */
export async function withServedModel<T>(options: ServeOptions, modelFolder: string, body: (served: ServedModel) => Promise<T>): Promise<T> {
  const { config, projectDir, signal, onUpdate } = options
  const warn = (message: string): void => onUpdate({ kind: "warning", message })
  const dir = await mkdtemp(join(tmpdir(), "cohort-measure-"))
  let servers: Servers | undefined
  let tasks: Tasks | undefined
  let rewards: Rewards | undefined
  try {
    const setup = { signal, log: warn, random: seededRandom(config.seed), projectDir, run: { id: "measure", dir } }
    tasks = await openTasks(options, setup)
    rewards = await openRewards(options, setup)
    folderWarnings(modelFolder).forEach(warn)
    servers = await openMeasured(options, modelFolder, join(dir, "engine.log"), warn)
    const health = await waitUntilReady(servers.pool, { timeoutMs: config.inference.startTimeoutMs, signal })
    return await body({ tasks, rewards, services: episodeServices(config, modelFolder, servers.pool, health.maxModelLength, warn, tasks.tools) })
  } finally {
    const closed = await Promise.allSettled([servers?.close(), rewards?.close(), tasks?.close()])
    for (const close of closed) if (close.status === "rejected") warn(messageOf(close.reason))
    await rm(dir, { recursive: true, force: true })
  }
}

/** Completions that are asked for at once: twice what the engine decodes, so that it never waits. */
export function measuredConcurrency({ inference }: RunOptions["config"]): number {
  return 2 * (inference.slots === "auto" ? defaultSlots : inference.slots)
}

async function openMeasured(options: ServeOptions, modelFolder: string, logPath: string, onWarning: (message: string) => void): Promise<Servers> {
  const { config, env, signal, onUpdate } = options
  const { inference } = config
  if (inference.urls.length > 0 || inference.kind !== "embedded") return openServers({ config, env, logPath, startVersion: 0, signal, onWarning })
  onUpdate({ kind: "phase", phase: "runtime", message: "looking for the tensor runtime" })
  const runtime = await defaultOpenOptions({ env, signal, onProgress: ({ message, bytes, totalBytes }) => onUpdate({ kind: "progress", message, done: bytes, total: totalBytes }) })
  return openServers({
    config, env, logPath, startVersion: 0, signal, onWarning,
    engine: {
      modelFolder, modelName, version: 0,
      runtime: { ...runtime, threads: inference.threads === "auto" ? availableParallelism() : inference.threads },
      slots: inference.slots === "auto" ? defaultSlots : inference.slots,
      dtype: inference.dtype,
      formMemory: join(cacheFolder(env, systemHost().home), "forms", "decode.json"),
      ...(inference.maxModelLength === "auto" ? {} : { maxModelLength: inference.maxModelLength }),
    },
  })
}

interface Answer {
  readonly episode: Episode
  readonly total: number
  readonly first: number | null
}

async function sampleAll(options: MeasureOptions, tasks: Tasks, rewards: Rewards, services: EpisodeServices): Promise<readonly PromptOutcome[]> {
  const { config, signal, onUpdate, samples } = options
  const { size } = tasks.train
  const count = Math.min(options.prompts, size)
  onUpdate({ kind: "phase", phase: "eval", message: `${samples} completions of each of ${count} prompts` })
  const offset = Math.floor(seededRandom(seedOf(config.seed, 0x9a55))() * size)
  // Spread over the whole set: files are often sorted by difficulty.
  const rows = Array.from({ length: count }, (_, prompt) => tasks.train.at((offset + Math.floor((prompt * size) / count)) % size))
  const answers = rows.map((): Answer[] => [])
  const failed = rows.map(() => 0)
  const firstName = rewards.entries[0]?.name ?? "environment"
  const jobs = Array.from({ length: count * samples }, (_, job) => job)
  let finished = 0

  const sampleOne = async (prompt: number, member: number): Promise<Answer | undefined> => {
    const row = rows[prompt]!
    const seed = seedOf(config.seed, prompt, member)
    const environment = tasks.environmentOf(row)
    const result = await runEpisode({ ...services, ...(environment === undefined ? {} : { environment }), row, member, signal, rolloutId: `passrate.${prompt}.${member}`, random: seededRandom(seed), sampling: { ...samplingOf(config), seed } })
    if (result.kind === "failed") return undefined
    const [score] = await scoreEpisodes([result.episode], { ...services, rewards: rewards.entries, row, environmentWeight: 1, policyVersion: 0, retryDelayMs: 500, signal })
    return score?.kind === "scored" ? { episode: result.episode, total: score.total, first: score.parts[firstName] ?? null } : undefined
  }
  const work = async (): Promise<void> => {
    for (let job = jobs.shift(); job !== undefined && !signal.aborted; job = jobs.shift()) {
      const prompt = Math.floor(job / samples)
      const answer = await sampleOne(prompt, job % samples)
      if (answer === undefined) failed[prompt]!++
      else answers[prompt]!.push(answer)
      onUpdate({ kind: "progress", message: "completions", done: ++finished, total: count * samples })
    }
  }
  await Promise.all(Array.from({ length: Math.min(measuredConcurrency(config), jobs.length) }, work))
  if (signal.aborted) throw new CohortError("aborted", "the measurement was interrupted")
  return answers.map((members, prompt): PromptOutcome => ({
    id: rows[prompt]!.id,
    rewards: members.map(({ total }) => total),
    passed: members.filter(({ first }) => first !== null && first >= rewards.fullMarks).length,
    truncated: members.filter(({ episode }) => episode.truncated).length,
    failed: failed[prompt]!,
    tokens: members.reduce((sum, { episode }) => sum + episode.completionIds.length, 0),
  }))
}
