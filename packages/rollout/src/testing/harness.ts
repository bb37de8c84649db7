// A worker over a simulated server with everything it did written down; for the tests of this package and of whoever drives a worker.
import type { PromptRow } from "@cohort/env"
import type { Clock, RolloutEvent, RolloutWorker } from "../protocol.ts"
import { pacedPolicy } from "../staleness.ts"
import { createRolloutWorker } from "../worker.ts"
import type { RolloutWorkerOptions } from "../worker-options.ts"
import { plainTokenizer } from "./plain-tokenizer.ts"
import { createSimulatedServer, type SimulatedServer, type SimulatedServerOptions } from "./simulated-server.ts"
import { createVirtualClock, type VirtualClock } from "./virtual-clock.ts"

export interface WorkerHarness {
  readonly clock: VirtualClock
  readonly server: SimulatedServer
  readonly worker: RolloutWorker
  readonly events: readonly RolloutEvent[]
  readonly givenBack: readonly number[]
  readonly logged: readonly string[]
  /** Events of one kind. */
  of(kind: RolloutEvent["kind"]): readonly RolloutEvent[]
}

/** Prompts 0 to `count` - 1, then the end; without `count` there is always another. */
export function countedPrompts(count = Number.POSITIVE_INFINITY): RolloutWorkerOptions["nextPrompt"] {
  let next = 0
  return () => {
    if (next >= count) return undefined
    const row: PromptRow = { id: `row-${next}`, prompt: `prompt ${next}` }
    return { occurrence: next++, row }
  }
}

/** Reward that differs between the members of most groups: the number of generated tokens. */
export const lengthReward: RolloutWorkerOptions["rewards"][number] = {
  name: "length",
  weight: 1,
  reward: (rollout) => rollout.completionIds.length,
  timeoutMs: 1000,
  maxAttempts: 1,
}

/** Options of a small worker, but for what the run keeps: prompts and what is told. */
export function simulatedOptions(clock: Clock, server: SimulatedServer): Omit<RolloutWorkerOptions, "emit" | "log" | "nextPrompt" | "onGiveBack"> {
  return {
    tokenizer: plainTokenizer,
    server,
    clock,
    limits: {
      maxModelLength: 4096, maxTurns: 4, generateTimeoutMs: 10_000, toolTimeoutMs: 1000,
      environmentTimeoutMs: 1000, episodeTimeoutMs: 60_000, forkThresholdTokens: 1024,
    },
    groupSize: 3,
    rules: { maxAttempts: 3, minMembers: 2 },
    retryDelayMs: 100,
    sampling: { maxTokens: 16, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [0] },
    seed: 5,
    rewards: [lengthReward],
    environmentWeight: 1,
    advantages: (rewards) => rewards.map((reward) => reward - rewards.reduce((a, b) => a + b, 0) / rewards.length),
    filterZeroSpread: false,
    promptTimeoutMs: 1000,
    policy: pacedPolicy,
    maxStaleness: 1,
    groupsPerStep: 2,
    stepsPerSync: 1,
    startVersion: 0,
    queueCapacity: 8,
    maxConcurrentRollouts: 64,
    maxGroupsInFlight: 16,
    heartbeatMs: 1000,
    stopTimeoutMs: 5000,
    maxConsecutiveFailures: 4,
    maxConsecutiveFiltered: 20,
  }
}

/**
 * @example
 * const { clock, worker } = createWorkerHarness({ groupsPerStep: 2 })
 */
export function createWorkerHarness(
  overrides: Partial<RolloutWorkerOptions> = {},
  server: Partial<SimulatedServerOptions> = {},
): WorkerHarness {
  const clock = createVirtualClock()
  const simulated = createSimulatedServer({ clock, seed: 1, ...server })
  const events: RolloutEvent[] = []
  const givenBack: number[] = []
  const logged: string[] = []
  const worker = createRolloutWorker({
    ...simulatedOptions(clock, simulated),
    log: (message) => logged.push(message),
    nextPrompt: countedPrompts(),
    ...overrides,
    emit: (event) => {
      overrides.emit?.(event)
      events.push(event)
    },
    onGiveBack: (occurrence) => {
      overrides.onGiveBack?.(occurrence)
      givenBack.push(occurrence)
    },
  })
  return { clock, server: simulated, worker, events, givenBack, logged, of: (kind) => events.filter((event) => event.kind === kind) }
}
