// Evaluation: held-out prompts through the same servers, episodes and rewards that training uses.
import type { EnvironmentFactory, PromptRow, RowSource } from "@cohort/env"
import { CohortError } from "@cohort/errors"
import type { Sampling } from "@cohort/inference"
import { codeOfReason, type DropReason, type Episode, type EpisodeServices, hintOfReason, type RewardEntry, runEpisode, scoreEpisodes, seededRandom, seedOf } from "@cohort/rollout"
import type { EvalReport } from "./run.ts"

export interface EvaluateOptions extends EpisodeServices {
  readonly source: RowSource
  readonly prompts: number
  readonly samples: number
  readonly sampling: Omit<Sampling, "seed">
  readonly seed: number
  readonly environmentOf?: (row: PromptRow) => EnvironmentFactory | undefined
  readonly rewards: readonly RewardEntry[]
  /** Value of the first reward that counts as solved. */
  readonly fullMarks: number
  /** Rollouts in flight at once. */
  readonly concurrency: number
  readonly step: number
  readonly retryDelayMs: number
  readonly signal: AbortSignal
}

const examplesKept = 5

/**
 * Scores `prompts` rows of a source, `samples` completions each.
 *
 * accuracy = share of the scored completions whose first reward reaches `fullMarks`.
 * @throws CohortError when no completion could be scored, with the code of the first reason; `aborted`
 */
export async function evaluate(options: EvaluateOptions): Promise<EvalReport> {
  const { source, clock, signal } = options
  const start = clock.now()
  const count = Math.min(options.prompts, source.size)
  const jobs = Array.from({ length: count * options.samples }, (_, job) => job)
  const results: ({ readonly episode: Episode; readonly reward: number | null; readonly first: number | null } | undefined)[] = []
  const unscored = new Map<DropReason, { count: number; error: string }>()
  const miss = (reason: DropReason, error: string): void => void unscored.set(reason, { count: (unscored.get(reason)?.count ?? 0) + 1, error })
  const worker = async (): Promise<void> => {
    for (let job = jobs.shift(); job !== undefined && !signal.aborted; job = jobs.shift()) {
      const index = Math.floor(job / options.samples)
      const member = job % options.samples
      const row = source.at(index)
      const environment = options.environmentOf?.(row)
      const result = await runEpisode({
        ...options,
        ...(environment === undefined ? {} : { environment }),
        row,
        rolloutId: `eval${options.step}.${index}.${member}`,
        member,
        sampling: { ...options.sampling, seed: seedOf(options.seed, index, member) },
        random: seededRandom(seedOf(options.seed, index, member, 1)),
      })
      if (result.kind === "failed") {
        miss(result.reason, result.error)
        continue
      }
      const [score] = await scoreEpisodes([result.episode], { ...options, row, environmentWeight: 1, policyVersion: options.step })
      const firstName = options.rewards[0]?.name ?? "environment"
      if (score?.kind === "scored") results[job] = { episode: result.episode, reward: score.total, first: score.parts[firstName] ?? null }
      else miss(score?.reason ?? "no_reward", score?.error ?? "no score")
    }
  }
  const stopOthers = (error: unknown): never => {
    jobs.length = 0
    throw error
  }
  await Promise.all(Array.from({ length: Math.min(options.concurrency, jobs.length) }, () => worker().catch(stopOthers)))
  if (signal.aborted) throw new CohortError("aborted", "the evaluation was interrupted")
  const scored = results.filter((result) => result !== undefined)
  const misses = [...unscored].map(([reason, { count: times, error }]) => `${times} ${reason} (${error})`).join(", ")
  if (scored.length === 0) {
    const [reason = "no_reward"] = unscored.keys()
    throw new CohortError(codeOfReason(reason), `none of ${count} evaluation prompts could be scored: ${misses}`, { hint: hintOfReason(reason) })
  }
  if (unscored.size > 0) options.log(`${count * options.samples - scored.length} of ${count * options.samples} evaluation completions could not be scored and are left out of its figures: ${misses}`)
  const solved = scored.filter(({ first }) => first !== null && first >= options.fullMarks).length
  return {
    step: options.step,
    accuracy: solved / scored.length,
    rewardMean: scored.reduce((sum, { reward }) => sum + (reward ?? 0), 0) / scored.length,
    prompts: count,
    unscored: count * options.samples - scored.length,
    seconds: (clock.now() - start) / 1000,
    examples: Array.from({ length: Math.min(examplesKept, count) }, (_, index) => {
      const result = results[index * options.samples]
      const row = source.at(index)
      return { id: row.id, prompt: promptText(row.prompt), completion: result?.episode.text ?? "", reward: result?.reward ?? null }
    }),
  }
}

function promptText(prompt: ReturnType<RowSource["at"]>["prompt"]): string {
  return typeof prompt === "string" ? prompt : (prompt.findLast((message) => message.role === "user")?.content ?? "")
}
