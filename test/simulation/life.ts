// One life of the run's process: from its start or resume to its end, its crash, or an error. Everything but engines, rewards, tools, weights
// and time is the product's own code, put together as the composition root does it.
import { createStepPlanner } from "@cohort/batching"
import { type RunConfig, resolveConfig } from "@cohort/config"
import { createCursor, type CursorState, type PromptCursor, restoreCursor } from "@cohort/data"
import { CohortError, isCohortError } from "@cohort/errors"
import { kinds, type LedgerEventInput } from "@cohort/ledger"
import { createRolloutWorker, downWeightPolicy, dropPolicy, type RolloutWorker, maskPolicy, oversampled, pacedPolicy, seedOf, type Throttle, throttled } from "@cohort/rollout"
import { createVirtualClock, type VirtualClock } from "@cohort/rollout/testing"
import { createWatch, lostAndWaiting, type Progress, resumeCursor, type StopReason, trainLoop } from "@cohort/trainer/loop"
import { type Bug, faultyCursor } from "./bug.ts"
import type { Disk } from "./disk.ts"
import { createEngines, type Engine } from "./engine.ts"
import type { Oracle } from "./oracle.ts"
import { deadlines, type Ending, maxTokens, progressBoundMs, type Scenario } from "./scenario.ts"
import { simulatedTokenizer } from "./tokens.ts"
import { createBackend, createTransfer } from "./trainer.ts"
import { createWorkload, maxModelLength, type Workload } from "./workload.ts"

export interface LifeOptions {
  readonly scenario: Scenario
  readonly disk: Disk
  readonly oracle: Oracle
  readonly ending: Ending
  /** How many lives the run had before. */
  readonly life: number
  readonly startMs: number
  readonly bug: Bug | undefined
}

export interface LifeEnd {
  readonly how: { readonly kind: "stopped"; readonly reason: StopReason } | { readonly kind: "failed"; readonly error: unknown } | { readonly kind: "crashed" }
  readonly atMs: number
  readonly step: number
}

const policies = { paced: pacedPolicy, drop: dropPolicy, downWeight: downWeightPolicy(), mask: maskPolicy }
const template = resolveConfig({ model: { path: "policy" }, data: { source: "simulated" } })

function configOf(scenario: Scenario): RunConfig {
  const { steps, groupsPerStep, groupSize, iterations, maxStaleness, stepsPerSync } = scenario
  return {
    ...template,
    train: { ...template.train, steps, iterations, completionsPerStep: groupsPerStep * groupSize },
    rollout: { ...template.rollout, groupSize, heartbeatStaleMs: 60_000 },
    staleness: { ...template.staleness, maxSteps: maxStaleness, weightSyncSteps: stepsPerSync, slo: scenario.slo },
    transfer: { ...template.transfer, timeoutMs: deadlines.transferTimeoutMs },
  }
}

/** Lives until the run stops, fails or crashes. */
export async function live(options: LifeOptions): Promise<LifeEnd> {
  const clock = createVirtualClock(options.startMs)
  const life = new Life(options, clock)
  const how = await life.run()
  return { how, atMs: clock.now(), step: life.progress.step }
}

class Life {
  readonly progress: Progress
  readonly #options: LifeOptions
  readonly #clock: VirtualClock
  readonly #crash = Promise.withResolvers<void>()
  readonly #interrupt = new AbortController()
  readonly #over = new AbortController()
  readonly #throttle: Throttle = { maxAhead: Number.POSITIVE_INFINITY }
  #dead = false
  #events = 0

  constructor(options: LifeOptions, clock: VirtualClock) {
    this.#options = options
    this.#clock = clock
    this.progress = { step: options.disk.checkpoint?.step ?? 0, samplesTrained: 0, trainedTokens: 0, trainSeconds: 0, entropy: { coefficient: 0, lastEntropy: null } }
  }

  async run(): Promise<LifeEnd["how"]> {
    const { ending, oracle, disk } = this.#options
    oracle.begin(this.progress.step, this.#clock.now())
    if (ending.kind === "crashAtMs") this.#at(this.#clock.now() + ending.afterMs, () => this.#die())
    if (ending.kind === "interruptAtMs") this.#at(this.#clock.now() + ending.afterMs, () => this.#interrupt.abort(new CohortError("aborted", "interrupted")))
    const work = this.#work().then(
      (reason) => ({ kind: "stopped", reason }) as const,
      (error: unknown) => ({ kind: "failed", error }) as const,
    )
    try {
      const crashed = this.#crash.promise.then(() => ({ kind: "crashed" }) as const)
      return await this.#clock.run(Promise.race([work, crashed]), progressBoundMs)
    } catch (error) {
      oracle.problem(`no progress: ${error instanceof Error ? error.message : String(error)}`)
      return { kind: "failed", error }
    } finally {
      if (this.#dead) disk.lose(this.#clock)
      this.#dead = true
    }
  }

  /** As `createRun` does it. */
  async #work(): Promise<StopReason> {
    const { scenario, disk, oracle, life } = this.#options
    const clock = this.#clock
    if (disk.checkpoint !== undefined) disk.append({ kind: kinds.resumed, atMs: clock.now(), step: this.progress.step }, clock)
    const workload = createWorkload(scenario, clock, life)
    const cursor = this.#openCursor(workload)
    const engines = createEngines({ scenario, clock, version: this.progress.step, isSlow: workload.isSlow })
    const backend = createBackend(scenario, clock, this.progress.step, life, {
      onCommit: (step, rows) => this.#whileAlive(() => oracle.commit(step, rows)),
      onProblem: (problem) => this.#whileAlive(() => oracle.problem(problem)),
    })
    const transfer = createTransfer(scenario, clock, engines.all, life)
    const worker = this.#openWorker(workload, engines, cursor)
    this.#happenings(worker, engines.all, transfer.published)
    const save = async (): Promise<void> => {
      disk.flush()
      const state = { step: this.progress.step, cursor: cursor.state() }
      await backend.save("")
      this.#whileAlive(() => {
        disk.checkpoint = state
      })
    }
    try {
      await worker.start()
      const reason = await trainLoop({
        config: configOf(scenario), backend, transfer, clock,
        worker: this.#watched(worker),
        planner: createStepPlanner({ maxLength: scenario.longestSample, tokenBudget: 4 * scenario.longestSample, samplesPerStep: scenario.groupsPerStep * scenario.groupSize, packing: scenario.packing }),
        groupsPerStep: scenario.groupsPerStep,
        rewards: workload.rewards,
        progress: this.progress,
        signal: this.#interrupt.signal,
        exclusively: (body) => body(),
        ...(scenario.slo.length === 0 ? {} : { watch: createWatch({ config: { guardrails: [], staleness: configOf(scenario).staleness }, groupsPerStep: scenario.groupsPerStep, throttle: this.#throttle }) }),
        append: (event) => this.#append({ atMs: clock.now(), ...event }, worker),
        giveBack: (occurrence) => {
          cursor.giveBack(occurrence)
          this.#append({ kind: kinds.givenBack, atMs: clock.now(), occurrence }, worker)
        },
        onSync: () => undefined,
        onUpdate: () => undefined,
        onStep: async (step) => {
          if (step % scenario.checkpointEverySteps === 0) await save()
        },
      })
      await worker.stop()
      for (const occurrence of lostAndWaiting(cursor, disk.account())) this.#append({ kind: kinds.givenBack, atMs: clock.now(), occurrence, reason: "the run ended" }, worker)
      await save()
      this.#checkClosed(workload, engines.all)
      return reason
    } finally {
      this.#over.abort()
      await worker.stop()
      disk.flush()
    }
  }

  #openCursor(workload: Workload): PromptCursor {
    const { scenario, disk, bug } = this.#options
    const settings = { seed: seedOf(scenario.seed, 7), shuffle: scenario.seed % 2 === 0 }
    if (disk.checkpoint === undefined) return createCursor(workload.source, settings)
    const saved: CursorState = disk.checkpoint.cursor
    const faulty = faultyCursor(bug, saved, disk.account())
    return faulty === undefined ? resumeCursor(workload.source, saved, disk.account(), settings) : restoreCursor(workload.source, faulty, settings)
  }

  #openWorker(workload: Workload, server: ReturnType<typeof createEngines>, cursor: PromptCursor): RolloutWorker {
    const { scenario, bug } = this.#options
    const { groupSize, groupsPerStep, maxStaleness, stepsPerSync, queueCapacity, maxConcurrentRollouts, maxGroupsInFlight, minMembers, maxAttempts, prompts, filterZeroSpread } = scenario
    const unbounded = bug === "stuckRollout" ? { generateTimeoutMs: 1e12, episodeTimeoutMs: 1e12 } : {}
    const worker: RolloutWorker = createRolloutWorker({
      tokenizer: simulatedTokenizer,
      server,
      clock: this.#clock,
      limits: { maxModelLength, maxTurns: 4, forkThresholdTokens: 8, ...deadlines, ...unbounded },
      log: () => undefined,
      groupSize, groupsPerStep, maxStaleness, stepsPerSync, queueCapacity, maxConcurrentRollouts, maxGroupsInFlight, filterZeroSpread,
      ...(scenario.maxReplacedPerStep === undefined ? {} : { maxReplacedPerStep: scenario.maxReplacedPerStep }),
      rules: { maxAttempts, minMembers },
      retryDelayMs: 100,
      sampling: { maxTokens, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [] },
      seed: scenario.seed,
      environmentOf: workload.environmentOf,
      rewards: workload.rewards,
      environmentWeight: 1,
      advantages: (rewards) => rewards.map((reward) => reward - rewards.reduce((sum, other) => sum + other, 0) / rewards.length),
      emit: (event) => this.#append(event, worker),
      nextPrompt: async () => {
        const { returned, next } = cursor.state()
        if (prompts !== undefined && returned.length === 0 && next >= prompts) return undefined
        const prompt = cursor.next()
        // Whoever stopped asking in the meantime gets the prompt all the same, and gives it back.
        if (scenario.readMs > 0) await this.#clock.sleep(scenario.readMs)
        return prompt
      },
      promptTimeoutMs: 1_000,
      policy: throttled(oversampled(policies[scenario.policy], scenario.oversampling), this.#throttle),
      startVersion: this.progress.step,
      overdue: scenario.overdue,
      heartbeatMs: 1_000,
      stopTimeoutMs: 15_000,
      maxConsecutiveFailures: 4 * groupsPerStep + 4,
      maxConsecutiveFiltered: 100 * groupsPerStep,
      onGiveBack: (occurrence) => cursor.giveBack(occurrence),
    })
    return worker
  }

  /** The worker as the loop sees it, with a look at every group that it hands out and every version that it is told. */
  #watched(worker: RolloutWorker): RolloutWorker {
    const { oracle } = this.#options
    const samples: RolloutWorker["samples"] = {
      [Symbol.asyncIterator]: () => {
        const inner = worker.samples[Symbol.asyncIterator]()
        return {
          next: async () => {
            const next = await inner.next()
            if (next.done !== true) this.#whileAlive(() => oracle.taken(next.value))
            return next
          },
        }
      },
    }
    return {
      samples,
      get status() {
        return worker.status
      },
      get queued() {
        return worker.queued
      },
      start: () => worker.start(),
      stop: () => worker.stop(),
      pause: () => worker.pause(),
      resume: () => worker.resume(),
      release: (occurrence, reason) => worker.release(occurrence, reason),
      setPolicyVersion: (version) => {
        this.#whileAlive(() => oracle.version(version))
        worker.setPolicyVersion(version)
      },
    }
  }

  /** Engines that die and come back, and an operator who pauses the worker. */
  #happenings(worker: RolloutWorker, engines: readonly Engine[], published: () => number): void {
    const { engineDeaths, pauses } = this.#options.scenario
    for (const { engine, atMs, downMs } of engineDeaths) {
      this.#at(atMs, () => {
        engines[engine]!.die()
        this.#at(this.#clock.now() + downMs, () => engines[engine]!.restart(published()))
      })
    }
    for (const { atMs, forMs } of pauses) {
      this.#at(atMs, () => void worker.pause().catch(ignoreDeath))
      this.#at(atMs + forMs, () => void worker.resume().catch(ignoreDeath))
    }
  }

  #at(atMs: number, run: () => void): void {
    const ms = atMs - this.#clock.now()
    if (ms < 0) return
    this.#clock.sleep(ms, this.#over.signal).then(run, () => undefined)
  }

  #append(event: LedgerEventInput, worker: RolloutWorker): void {
    const { disk, oracle, ending } = this.#options
    if (this.#dead) throw new CohortError("aborted", "this process is dead")
    if (ending.kind === "crashAtEvent" && ++this.#events === ending.event) {
      this.#die()
      throw new CohortError("aborted", "this process died")
    }
    disk.append(event, this.#clock)
    oracle.event(event, worker)
    if (disk.pending > 260) oracle.problem(`${disk.pending} events wait to be written`)
    const timers = this.#clock.pending
    const most = 60 + 16 * this.#options.scenario.maxConcurrentRollouts
    if (timers > most) oracle.problem(`${timers} timers are pending, above ${most}`)
  }

  #die(): void {
    if (this.#dead) return
    this.#dead = true
    this.#crash.resolve()
  }

  #whileAlive(run: () => void): void {
    if (!this.#dead) run()
  }

  #checkClosed(workload: Workload, engines: readonly Engine[]): void {
    if (this.#dead) return
    const { oracle, disk } = this.#options
    const trained = disk.account().occurrences.filter(({ state }) => state === "trained")
    oracle.closed(new Set(trained.map(({ occurrence }) => occurrence)))
    if (workload.openEnvironments > 0) oracle.problem(`${workload.openEnvironments} environments were not closed`)
    for (const engine of engines) if (engine.running > 0) oracle.problem(`${engine.name} still runs ${engine.running} requests`)
  }
}

/** Whether an error is one that the product may end a run with: typed, and no fault of its own. */
export function isHonest(error: unknown): boolean {
  return isCohortError(error) && error.code !== "internal"
}

/** What the operator's hand gets back from a process that is gone. */
function ignoreDeath(error: unknown): void {
  if (!isCohortError(error) || error.code !== "aborted") throw error
}
