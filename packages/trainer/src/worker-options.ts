// The rollout worker of a run as its config describes it: every setting of `rollout` and `staleness` meets the worker's options here.
import { promptsPerStep, type RunConfig } from "@cohort/config"
import { downWeightPolicy, dropPolicy, type EpisodeServices, maskPolicy, oversampled, pacedPolicy, type RewardEntry, type RolloutWorkerOptions, type Throttle, throttled } from "@cohort/rollout"
import { advantageRule } from "./objective.ts"
import { samplingOf, type Tasks } from "./tasks.ts"

/** What the config does not hold. */
export interface WorkerParts extends Pick<RolloutWorkerOptions, "emit" | "nextPrompt" | "onGiveBack" | "startVersion"> {
  readonly services: EpisodeServices
  readonly tasks: Pick<Tasks, "environmentOf">
  readonly rewards: readonly RewardEntry[]
  /** Completions that the servers decode at once. */
  readonly slots: number
  readonly throttle: Throttle
}

/** Groups that pacing lets be ahead of the trainer: in flight, queued, taken. */
export function mostAhead(config: RunConfig): number {
  return (config.staleness.maxSteps + 1) * Math.ceil(promptsPerStep(config) * config.rollout.oversampling)
}

const policies = { pace: pacedPolicy, drop: dropPolicy, downWeight: downWeightPolicy(), mask: maskPolicy } as const

/**
 * @example
 * const worker = createRolloutWorker(workerOptions(config, parts))
 */
export function workerOptions(config: RunConfig, parts: WorkerParts): RolloutWorkerOptions {
  const { rollout, staleness, seed } = config
  const { services, tasks, slots, throttle, ...own } = parts
  const groupsPerStep = promptsPerStep(config)
  const groupsAhead = mostAhead(config)
  // Twice the slots: the engine always finds the next group in its queue.
  const concurrent = rollout.maxInflightGroups === "auto" ? Math.max(rollout.groupSize, 2 * slots) : rollout.maxInflightGroups * rollout.groupSize
  return {
    ...services,
    ...own,
    groupSize: rollout.groupSize,
    rules: { maxAttempts: 3, minMembers: 2 },
    retryDelayMs: 500,
    sampling: samplingOf(config),
    seed,
    environmentOf: tasks.environmentOf,
    environmentWeight: 1,
    advantages: advantageRule(config),
    filterZeroSpread: rollout.dynamicSampling,
    maxReplacedPerStep: rollout.maxReplacedGroups === "auto" ? 10 * groupsAhead : rollout.maxReplacedGroups,
    overdue: staleness.overdue,
    promptTimeoutMs: 60_000,
    policy: throttled(oversampled(policies[staleness.policy], rollout.oversampling), throttle),
    maxStaleness: staleness.maxSteps,
    groupsPerStep,
    stepsPerSync: staleness.weightSyncSteps,
    queueCapacity: rollout.queueGroups === "auto" ? groupsAhead : rollout.queueGroups,
    maxConcurrentRollouts: concurrent,
    maxGroupsInFlight: Math.max(1, Math.ceil(concurrent / rollout.groupSize)),
    heartbeatMs: 1_000,
    stopTimeoutMs: 15_000,
    maxConsecutiveFailures: 4 * groupsPerStep,
    maxConsecutiveFiltered: 100 * groupsPerStep,
  }
}
