// What a rollout worker is made of, and the check that refuses settings under which it would never move.
import type { Awaitable, PromptRow } from "@cohort/env"
import { CohortError } from "@cohort/errors"
import type { GroupSettings } from "./group-run.ts"
import type { PipelineState, StalenessPolicy } from "./protocol.ts"
import { checkStaleness } from "./staleness.ts"

/** A prompt and its number in the run. */
export interface PromptOccurrence {
  readonly occurrence: number
  readonly row: PromptRow
}

export interface RolloutWorkerOptions extends GroupSettings, Pick<PipelineState, "maxStaleness" | "groupsPerStep" | "stepsPerSync"> {
  /** The next prompt; undefined at the end of the data. */
  readonly nextPrompt: (signal: AbortSignal) => Awaitable<PromptOccurrence | undefined>
  /** Bounds one call of `nextPrompt`. */
  readonly promptTimeoutMs: number
  readonly policy: StalenessPolicy
  /** Version of the weights that the servers hold at the start. */
  readonly startVersion: number
  /** Finished groups that may wait for the trainer before rollouts pause. */
  readonly queueCapacity: number
  /** Rollouts that may occupy the servers at once; a group starts when all its members fit. */
  readonly maxConcurrentRollouts: number
  /** Groups that are generating, being scored or waiting for room in the queue. */
  readonly maxGroupsInFlight: number
  /**
   * What happens to groups in flight whose last step has passed: `continue` (default) lets them end and the policy judge them, `cancel` drops them at once and
   * frees their places.
   */
  readonly overdue?: "continue" | "cancel"
  readonly heartbeatMs: number
  /** How long `stop` waits for rollouts to end after it aborted them. */
  readonly stopTimeoutMs: number
  /** The worker fails after so many groups in a row that ended in failures. */
  readonly maxConsecutiveFailures: number
  /** The worker fails after so many groups in a row that were dropped by a rule (no spread, too long, too old). */
  readonly maxConsecutiveFiltered: number
  /** The worker fails after more groups without spread than these between two steps, where `filterZeroSpread` replaces them; no limit of its own without it. */
  readonly maxReplacedPerStep?: number
  /** An admitted occurrence that will not end here: the caller admits it again, now or after a restart. */
  readonly onGiveBack: (occurrence: number) => void
}

const least = {
  groupSize: 2,
  queueCapacity: 1,
  maxConcurrentRollouts: 1,
  maxGroupsInFlight: 1,
  maxConsecutiveFailures: 1,
  maxConsecutiveFiltered: 1,
  heartbeatMs: 1,
  stopTimeoutMs: 1,
  promptTimeoutMs: 1,
  startVersion: 0,
} as const

/** @throws CohortError `config_invalid` naming the setting, its value and the least it may be. */
export function checkWorkerOptions(options: RolloutWorkerOptions): void {
  checkStaleness(options)
  for (const [name, minimum] of Object.entries(least) as [keyof typeof least, number][]) {
    const value = options[name]
    if (!Number.isInteger(value) || value < minimum)
      throw new CohortError("config_invalid", `${name} is ${value}; it must be an integer of at least ${minimum}`, { details: { field: name, value } })
  }
  if (options.maxConcurrentRollouts < options.groupSize)
    throw new CohortError("config_invalid", `maxConcurrentRollouts is ${options.maxConcurrentRollouts}, a group has ${options.groupSize} members`, {
      hint: "A group starts when all its members fit: raise maxConcurrentRollouts to at least the group size.",
      details: { field: "maxConcurrentRollouts", value: options.maxConcurrentRollouts },
    })
  if (options.rules.minMembers < 2 || options.rules.minMembers > options.groupSize)
    throw new CohortError("config_invalid", `minMembers is ${options.rules.minMembers}; it must lie between 2 and the group size ${options.groupSize}`)
  if (!Number.isInteger(options.rules.maxAttempts) || options.rules.maxAttempts < 1)
    throw new CohortError("config_invalid", `maxAttempts is ${options.rules.maxAttempts}; it must be an integer of at least 1`)
}
