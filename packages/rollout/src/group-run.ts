// One group from admission to its samples: generate with retries, score, advantages. Drives the reducer of group-state.ts.
import type { EnvironmentFactory, PromptRow } from "@cohort/env"
import type { Sampling } from "@cohort/inference"
import { timerOver } from "./timer-over.ts"
import { type Episode, type EpisodeResult, type EpisodeServices, runEpisode, runSharedEpisodes } from "./episode.ts"
import { type DropReason, isFailure } from "./generation.ts"
import { type AdvantageRule, buildSampleGroup, oldestVersionOf, type ScoredEpisode } from "./group-samples.ts"
import { admitGroup, type GroupAction, type GroupRules, type GroupState, reduceGroup } from "./group-state.ts"
import type { GroupTiming, RolloutEvent, SampleGroup } from "./protocol.ts"
import { seededRandom, seedOf } from "./random.ts"
import { type RewardEntry, scoreEpisodes } from "./scoring.ts"

/** How groups of a run are made. */
export interface GroupSettings extends EpisodeServices {
  readonly groupSize: number
  readonly rules: GroupRules
  /** First delay before a retry; it doubles, up to 30 s. */
  readonly retryDelayMs: number
  /** `seed` is set per group from `seed` below. */
  readonly sampling: Omit<Sampling, "seed">
  readonly seed: number
  readonly environmentOf?: (row: PromptRow) => EnvironmentFactory | undefined
  readonly rewards: readonly RewardEntry[]
  readonly environmentWeight: number
  readonly advantages: AdvantageRule
  readonly filterZeroSpread: boolean
  readonly emit: (event: RolloutEvent) => void
}

export interface GroupJob {
  readonly id: string
  readonly occurrence: number
  readonly row: PromptRow
  readonly signal: AbortSignal
  readonly policyVersion: () => number
  /** How long no group could start before this one. */
  readonly blocked: Pick<GroupTiming, "blockedMs" | "blockedBy">
  /** Told every new state. */
  readonly onState: (state: GroupState) => void
}

export type GroupOutcome =
  | { readonly kind: "complete"; readonly group: SampleGroup }
  | { readonly kind: "dropped"; readonly reason: DropReason; readonly error: string }
  /** The job's signal aborted: the occurrence is not over. */
  | { readonly kind: "interrupted" }

/**
 * Runs one group. Without environment and tools all members come out of one request, so the prompt is computed once; else each
 * rollout makes its own.
 *
 * @throws what `emit` or the advantage rule throws: the run must not go on without its records.
 */
export async function runGroup(job: GroupJob, settings: GroupSettings): Promise<GroupOutcome> {
  const run = new GroupRun(job, settings)
  try {
    await run.generate()
    return job.signal.aborted ? { kind: "interrupted" } : await run.score()
  } catch (error) {
    if (job.signal.aborted) return { kind: "interrupted" }
    throw error
  } finally {
    run.close()
  }
}

class GroupRun {
  readonly #job: GroupJob
  readonly #settings: GroupSettings
  readonly #startedAtMs: number
  readonly #episodes = new Map<number, Episode>()
  readonly #members = new AbortController()
  readonly #onAbort: () => void
  #state: GroupState
  #generatedAtMs: number
  #toolMs = 0

  constructor(job: GroupJob, settings: GroupSettings) {
    this.#job = job
    this.#settings = settings
    this.#startedAtMs = settings.clock.now()
    this.#generatedAtMs = this.#startedAtMs
    this.#state = admitGroup(job.id, job.occurrence, settings.groupSize)
    this.#onAbort = () => this.#members.abort(job.signal.reason)
    job.signal.addEventListener("abort", this.#onAbort, { once: true })
    if (job.signal.aborted) this.#onAbort()
  }

  close(): void {
    this.#job.signal.removeEventListener("abort", this.#onAbort)
    this.#members.abort(timerOver)
  }

  async generate(): Promise<void> {
    const { row } = this.#job
    const environment = this.#settings.environmentOf?.(row)
    const all = this.#state.members.map((_, member) => member)
    if (environment === undefined && this.#settings.tools === undefined) await this.#generateWaves(all, (wave, attempt) => this.#shared(wave, attempt))
    else
      await Promise.all(
        all.map((member) => this.#generateWaves([member], async (_, attempt) => [await this.#single(member, attempt, environment)])),
      )
  }

  async score(): Promise<GroupOutcome> {
    const { clock, filterZeroSpread, advantages } = this.#settings
    const { id, occurrence, row } = this.#job
    const scored = this.#state.phase === "scoring" ? await this.#scoreMembers() : []
    if (this.#state.phase === "dropped") return { kind: "dropped", reason: this.#state.reason!, error: this.#state.error ?? "" }
    const identity = { id, occurrence, row, startedAtMs: this.#startedAtMs }
    const group = buildSampleGroup(identity, scored, { advantages, filterZeroSpread })
    if (isFailure(group)) return { kind: "dropped", reason: group.reason, error: group.error }
    this.#emit({ kind: "group.completed", atMs: clock.now(), version: group.oldestVersion, data: {
      members: scored.length, rewardMean: group.rewardMean, rewardSpread: group.rewardSpread, trainedTokens: group.trainedTokens,
    } })
    const timing = { ...this.#job.blocked, generatedAtMs: this.#generatedAtMs, toolMs: this.#toolMs }
    return { kind: "complete", group: { ...group, timing } }
  }

  /** Generates `members` and repeats with those that may try again, after a delay. */
  async #generateWaves(
    members: readonly number[],
    attemptOnce: (wave: readonly number[], attempt: number) => Promise<readonly EpisodeResult[]>,
  ): Promise<void> {
    const { clock, retryDelayMs } = this.#settings
    let wave = members
    for (let attempt = 1; wave.length > 0 && this.#open(); attempt++) {
      if (attempt > 1 && !(await this.#delay(Math.min(retryDelayMs * 2 ** (attempt - 2), 30_000)))) return
      for (const member of wave) {
        this.#apply({ type: "generate", member })
        this.#emit({ kind: "rollout.started", atMs: clock.now(), rolloutId: this.#rolloutId(member, attempt), version: this.#job.policyVersion() })
      }
      const results = await attemptOnce(wave, attempt)
      if (this.#job.signal.aborted) return
      for (const [index, member] of wave.entries()) this.#settleAttempt(member, attempt, results[index]!)
      wave = wave.filter((member) => this.#state.members[member]?.status === "waiting")
    }
  }

  #shared(wave: readonly number[], attempt: number): Promise<readonly EpisodeResult[]> {
    const { settings, job } = { settings: this.#settings, job: this.#job }
    return runSharedEpisodes({
      ...settings,
      row: job.row,
      sampling: { ...settings.sampling, seed: seedOf(settings.seed, job.occurrence, attempt) },
      signal: this.#members.signal,
      members: wave.map((member) => ({ member, rolloutId: this.#rolloutId(member, attempt) })),
    })
  }

  #single(member: number, attempt: number, environment: EnvironmentFactory | undefined): Promise<EpisodeResult> {
    const job = this.#job
    // Named one by one: a copy of all settings for each rollout is what a rollout would cost most.
    const settings = this.#settings
    const { tokenizer, server, clock, limits, log, turnMode, tools } = settings
    const seed = seedOf(settings.seed, job.occurrence, attempt, member)
    return runEpisode({
      tokenizer, server, clock, limits, log,
      ...(turnMode === undefined ? {} : { turnMode }),
      ...(tools === undefined ? {} : { tools }),
      row: job.row,
      rolloutId: this.#rolloutId(member, attempt),
      member,
      sampling: { ...settings.sampling, seed },
      ...(environment === undefined ? {} : { environment }),
      random: seededRandom(seed),
      signal: this.#members.signal,
    })
  }

  #settleAttempt(member: number, attempt: number, result: EpisodeResult): void {
    // The group ended through its other members: this result has no place any more.
    if (!this.#open()) return
    const atMs = this.#settings.clock.now()
    const rolloutId = this.#rolloutId(member, attempt)
    if (result.kind === "failed") {
      this.#apply({ type: "failed", member, reason: result.reason, error: result.error, retryable: result.retryable })
      const retried = this.#state.members[member]?.status === "waiting"
      this.#emit({ kind: retried ? "rollout.retried" : "rollout.failed", atMs, rolloutId, reason: result.reason, data: { error: result.error, attempt } })
      return
    }
    const { episode } = result
    this.#episodes.set(member, episode)
    this.#generatedAtMs = atMs
    this.#toolMs = episode.toolMs
    this.#apply({ type: "generated", member })
    this.#emit({ kind: "rollout.generated", atMs, rolloutId, version: oldestOf(episode), data: {
      tokens: episode.completionIds.length, turns: episode.turns, rows: episode.rows.length, finishReason: episode.finishReason,
      truncated: episode.truncated, endedBy: episode.endedBy, forks: episode.tally.fork, realigned: episode.tally.realign, driftTokens: episode.tally.driftTokens, toolCalls: episode.toolCalls, toolFailures: episode.toolFailures,
    } })
  }

  async #scoreMembers(): Promise<readonly ScoredEpisode[]> {
    const entries = [...this.#episodes].toSorted(([a], [b]) => a - b)
    const episodes = entries.map(([, episode]) => episode)
    const { signal, row, policyVersion } = this.#job
    const scores = await scoreEpisodes(episodes, { ...this.#settings, row, signal, policyVersion: policyVersion() })
    signal.throwIfAborted()
    const scored: ScoredEpisode[] = []
    for (const [index, [member, episode]] of entries.entries()) {
      const score = scores[index]!
      const at = { atMs: this.#settings.clock.now(), rolloutId: episode.rolloutId }
      if (score.kind === "scored") {
        scored.push({ episode, score })
        this.#emit({ kind: "rollout.scored", ...at, data: { ...score.parts, total: score.total } })
      } else {
        this.#emit({ kind: "rollout.failed", ...at, reason: score.reason, data: { error: score.error } })
      }
      if (!this.#open()) continue
      if (score.kind === "scored") this.#apply({ type: "scored", member })
      else this.#apply({ type: "failed", member, reason: score.reason, error: score.error, retryable: false })
    }
    return scored
  }

  async #delay(ms: number): Promise<boolean> {
    try {
      await this.#settings.clock.sleep(ms, this.#members.signal)
      // Looked at here as well, for clocks that end an aborted sleep quietly.
      return !this.#members.signal.aborted
    } catch {
      // Aborted: the group is over or the worker stops, both are seen by the caller.
      return false
    }
  }

  #open(): boolean {
    return this.#state.phase !== "dropped" && this.#state.phase !== "complete"
  }

  #apply(action: GroupAction): void {
    this.#state = reduceGroup(this.#state, action, this.#settings.rules)
    this.#job.onState(this.#state)
    if (this.#state.phase === "dropped") this.#members.abort(new DOMException("the group was dropped", "AbortError"))
  }

  #rolloutId(member: number, attempt: number): string {
    return `${this.#job.id}.${member}.${attempt}`
  }

  #emit(event: Omit<RolloutEvent, "groupId" | "occurrence">): void {
    this.#settings.emit({ ...event, groupId: this.#job.id, occurrence: this.#job.occurrence })
  }
}

function oldestOf(episode: Episode): number {
  const versions = episode.rows.map((row) => oldestVersionOf(row)).filter((version) => version >= 0)
  return Math.min(...versions)
}
