// The engine as its callers see it: requests, pause and resume, weights, health.
import type { CohortError } from "@cohort/errors"
import type { PauseMode } from "@cohort/inference"

import type { EngineMetrics } from "./metrics.ts"
import type { EngineRequest, Submission } from "./request.ts"
import type { ModelRunner, RunnerInfo } from "./runner.ts"
import type { EngineTokenizer } from "./tokenizer.ts"

/** Label of weights that nobody named yet. */
export const defaultLabel = "default"

export interface EngineOptions {
  readonly runner: ModelRunner
  readonly tokenizer: EngineTokenizer
  /** Name by which requests ask for the model. */
  readonly modelName: string
  /** Folder that the first weights came from, shown by `/v1/models`. */
  readonly modelFolder?: string
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Uniform in [0, 1); draws the seeds that requests leave open. */
  readonly random: () => number
  /** Policy version of the weights that the runner holds; absent: the label is "default". */
  readonly version?: number
  /** Longest a single runner call may take, compiling included. Past it the engine is dead. */
  readonly callDeadlineMs?: number
}

export interface EngineHealth {
  readonly ready: boolean
  /** Why not, when not ready. */
  readonly error: CohortError | undefined
  readonly running: number
  readonly waiting: number
  readonly kvUsage: number
  readonly maxModelLength: number
  readonly versionLabel: string
}

export interface Engine {
  readonly modelName: string
  readonly modelFolder: string
  readonly tokenizer: EngineTokenizer
  readonly info: RunnerInfo
  /** Most tokens that prompt and output may have together. */
  readonly contextLength: number
  readonly versionLabel: string
  readonly isPaused: boolean
  /**
   * Queues a request. While paused it waits for `resume`. Throws `inference_rejected` when it cannot run here and
   * `inference_failed` when the engine is dead or holds weights that failed to load.
   *
   * @example
   * const [completion] = await engine.submit({ promptIds, n: 1, maxTokens: 16, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1 }).result
   */
  submit(request: EngineRequest): Submission
  /**
   * Stops generation and resolves when nothing is being computed. "keep" freezes what runs, "wait" lets it finish, "abort" ends it
   * with its tokens so far. `clearCache`: running sequences are prefilled again after `resume`, with the weights of then.
   * Rejects with `aborted` when `resume` comes before the pause is reached.
   */
  pause(mode: PauseMode, clearCache: boolean): Promise<void>
  resume(): void
  /** Ends the requests with one of these ids, or all; they resolve with finish "abort" and their tokens so far. */
  abort(ids?: readonly string[]): void
  /**
   * Loads the safetensors of a folder between two calls of the runner. Throws `file_invalid` for a folder without them, with nothing
   * changed. When the runner fails half-way the weights are unknown: all requests fail and none is taken until a load succeeds.
   */
  loadWeights(folder: string, version?: number | string): Promise<void>
  /** Names the weights that are loaded; tokens drawn from now on carry it. */
  setVersion(version: number | string): void
  /** Log-probs of every token given its prefix, entry 0 is 0. */
  score(tokenIds: Int32Array): Promise<Float32Array>
  health(): EngineHealth
  metrics(): EngineMetrics
  /** Fails what is left with `aborted`, waits for the runner and closes it. */
  close(): Promise<void>
}
