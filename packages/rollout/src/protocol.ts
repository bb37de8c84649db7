// The rollout side as the trainer sees it; a run accepts any implementation.
import type { Sample } from "@cohort/batching"
import type { PromptRow } from "@cohort/env"
import type { EpisodeEnd } from "./episode.ts"

/** Where a group's time went; for the account of the trainer's waiting. Times as `Clock.now()`. */
export interface GroupTiming {
  /** The last member had generated; scoring began. */
  readonly generatedAtMs: number
  /** Time in tools and the environment, of the member that generated last. */
  readonly toolMs: number
  /** How long no group could start before this one did, and why. */
  readonly blockedMs: number
  readonly blockedBy: AdmissionBlock | undefined
}

/** Why no group may start: finished groups wait for room, the policy says so, the servers are full, the worker is paused. */
export type AdmissionBlock = "queue" | "policy" | "servers" | "paused"

/** How the rollouts of a group went, summed over them. */
export interface EpisodeFigures {
  readonly turns: number
  readonly toolCalls: number
  readonly toolFailures: number
  /** Rollouts by why they ended; those that did not occur are absent. */
  readonly ends: Readonly<Partial<Record<EpisodeEnd, number>>>
}

/** A finished group: the completions of one prompt occurrence, scored, with advantages. */
export interface SampleGroup {
  readonly id: string
  /** Number of the prompt occurrence in the run: 0, 1, 2, ... Each ends exactly once. */
  readonly occurrence: number
  readonly row: PromptRow
  readonly samples: readonly Sample[]
  /** Total of each member that scored, in member order. */
  readonly rewards: readonly number[]
  /** Rollout of each of them: rows of `samples` name theirs, and one whose tokens are all masked has no row. */
  readonly rolloutIds: readonly string[]
  /** The rewards of each of them by name, before weights; those that did not apply are absent. */
  readonly memberParts: readonly Readonly<Record<string, number>>[]
  /** Mean reward of the members that scored, and per reward name. */
  readonly rewardMean: number
  readonly rewardParts: Readonly<Record<string, number>>
  readonly rewardSpread: number
  /** Oldest policy version that generated one of the trained tokens. */
  readonly oldestVersion: number
  readonly trainedTokens: number
  readonly completionTokens: number
  readonly truncatedShare: number
  /** Mean over the rollouts of the share of 4-grams that occurred before in the same rollout. */
  readonly repetition?: number
  readonly timing?: GroupTiming
  readonly episodes?: EpisodeFigures
  readonly startedAtMs: number
  readonly queuedAtMs: number
}

export interface WorkerStatus {
  readonly state: "idle" | "running" | "paused" | "stopped" | "failed"
  readonly heartbeatAtMs: number
  readonly groupsInFlight: number
  readonly rolloutsInFlight: number
  readonly queueDepth: number
  readonly lastError: string | undefined
}

/** Trained tokens of one sample and the oldest version that generated one of them; -1 where it is unknown. */
export interface VersionedTokens {
  readonly oldestVersion: number
  readonly trainedTokens: number
}

/** What a run asks of its rollout side, here, in a thread or in another process: `createRolloutWorker` is one implementation, `connectRolloutWorker` the way to another. */
export interface RolloutWorker {
  start(): Promise<void>
  /** Every occurrence that was handed out and has not ended goes back, also when what it waits for never answers. */
  stop(): Promise<void>
  /** Starts no new group; what is in flight goes on. */
  pause(): Promise<void>
  resume(): Promise<void>
  /** After each optimizer step and, where it is a sync, after the weights reached the servers. Groups taken before count for the step before. */
  setPolicyVersion(version: number): void
  /**
   * A group taken for the step that is being filled will not be trained (it does not fit a batch, say): it ends as dropped with
   * `reason`, and another may start in its place.
   *
   * @throws CohortError `internal` for an occurrence that was not taken at this version.
   */
  release(occurrence: number, reason: string): void
  /** Oldest first; ends when the worker stops, throws when it failed. */
  readonly samples: AsyncIterable<SampleGroup>
  readonly status: WorkerStatus
  /** The samples that wait for the trainer. */
  readonly queued: readonly VersionedTokens[]
}

/** What staleness decisions are made from. Versions are optimizer steps. */
export interface PipelineState {
  /** Version being trained (optimizer steps taken). */
  readonly version: number
  readonly maxStaleness: number
  readonly groupsPerStep: number
  readonly stepsPerSync: number
  readonly groupsInFlight: number
  readonly groupsQueued: number
  /** Groups taken by the trainer for the step that is being filled. */
  readonly groupsTaken: number
}

/** What becomes of a group, with the reason in a sentence. */
export interface StalenessDecision {
  readonly action: "train" | "drop"
  readonly weight: number
  /** Tokens of older versions stay in the rows and are not trained. */
  readonly maskBelowVersion?: number
  readonly because: string
}

export interface StalenessPolicy {
  readonly name: string
  /** The trainer waits for a slow older group when taking a newer one instead would push the older past the bound. */
  readonly waitsForOldest?: boolean
  /** More groups start than are trained: one whose last step is over before it was taken is cut off, and counts as `surplus` and not as `stale`. */
  readonly cutsSurplus?: boolean
  /** How many more groups may start now, and why. */
  capacity(state: PipelineState): { readonly groups: number; readonly because: string }
  /** What happens to a group that the trainer takes from the queue. */
  decide(group: SampleGroup, state: PipelineState): StalenessDecision
}

/** Time as an argument, so that everything here runs under a virtual clock. */
export interface Clock {
  now(): number
  /** Resolves after `ms`; rejects with the signal's reason when aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** One state change of the pipeline; goes to the ledger as it is. */
export interface RolloutEvent {
  readonly kind:
    | "group.admitted" | "rollout.started" | "rollout.generated" | "rollout.scored" | "rollout.failed" | "rollout.retried"
    | "group.completed" | "group.queued" | "group.dropped" | "group.trained" | "group.givenBack" | "worker.state"
  readonly atMs: number
  readonly groupId?: string
  readonly occurrence?: number
  readonly rolloutId?: string
  readonly version?: number
  readonly reason?: string
  readonly data?: Readonly<Record<string, number | string | boolean | null>>
}
