// The rollout worker: admits groups as the staleness policy allows, runs them side by side, hands them to the trainer oldest first.
// Every admitted occurrence leaves exactly once: taken, dropped with a reason, or given back.
// Long because admission, hand-over and stop share one set of open groups: apart, each would need the others' inside.
import { CohortError, isCohortError, messageOf } from "@cohort/errors"
import { withDeadline } from "./deadline.ts"
import { timerOver } from "./timer-over.ts"
import { DropBudget } from "./drop-budget.ts"
import type { DropReason } from "./generation.ts"
import { type GroupJob, runGroup } from "./group-run.ts"
import { maskedBelow, versionedTokensOf } from "./group-samples.ts"
import { activeMembers, admitGroup, type GroupAction, type GroupState, reduceGroup } from "./group-state.ts"
import type { AdmissionBlock, PipelineState, RolloutEvent, RolloutWorker, SampleGroup, VersionedTokens, WorkerStatus } from "./protocol.ts"
import { PromptReader } from "./prompt-reader.ts"
import { SampleQueue } from "./queue.ts"
import { deadlineOf, mustWait } from "./staleness.ts"
import { checkWorkerOptions, type PromptOccurrence, type RolloutWorkerOptions } from "./worker-options.ts"

/** An admitted occurrence that has not left the worker. */
interface OpenGroup {
  state: GroupState
  /** Its rollouts that hold a place of the servers. */
  active: number
  /** Last step at which it is within the staleness bound. */
  readonly deadline: number
  readonly cancel: AbortController
}

/**
 * Makes a rollout worker over one inference server (or a pool behind one face).
 *
 * Take `groupsPerStep` groups per step (`release` those that cannot be trained), then call `setPolicyVersion(v)`: after each optimizer
 * step, and after the weights of v reached the servers where v is a sync. Groups taken ahead of that call count for the step before. Groups that
 * `samples` yields have passed the staleness policy: their weights are set, those too old were dropped and counted. Rollouts that are
 * in flight over a sync go on; their tokens carry the version that made them.
 *
 * @throws CohortError `config_invalid` for settings under which nothing could be trained.
 * @example
 * const worker = createRolloutWorker(options)
 * await worker.start()
 * for await (const group of worker.samples) { ... }
 */
export function createRolloutWorker(options: RolloutWorkerOptions): RolloutWorker {
  checkWorkerOptions(options)
  return new GroupWorker(options)
}

class GroupWorker implements RolloutWorker {
  readonly samples: AsyncIterable<SampleGroup>
  readonly #options: RolloutWorkerOptions
  readonly #queue: SampleQueue<SampleGroup>
  readonly #prompts: PromptReader
  readonly #budget: DropBudget
  readonly #life = new AbortController()
  readonly #open = new Map<number, OpenGroup>()
  readonly #tasks = new Set<Promise<void>>()
  #state: WorkerStatus["state"] = "idle"
  #version: number
  /** Occurrences taken at this version. */
  readonly #taken = new Set<number>()
  #heartbeatAtMs: number
  #failure: CohortError | undefined
  /** Sum of `active` over the open groups: asked at every event, so it is kept and not counted. */
  #rolloutsInFlight = 0
  #admitting = false
  /** Since when no group could start, and why; with an end, the groups that start at that very moment were held up by it. */
  #block: { readonly sinceMs: number; readonly by: AdmissionBlock; readonly endedAtMs?: number } | undefined
  #wake = Promise.withResolvers<void>()
  #stopped: Promise<void> | undefined

  constructor(options: RolloutWorkerOptions) {
    this.#options = options
    this.#queue = new SampleQueue(options.queueCapacity)
    this.#prompts = new PromptReader(options, this.#life.signal)
    this.#budget = new DropBudget(options)
    this.#version = options.startVersion
    this.#heartbeatAtMs = options.clock.now()
    this.samples = { [Symbol.asyncIterator]: () => this.#iterate() }
  }

  get status(): WorkerStatus {
    return {
      state: this.#state,
      heartbeatAtMs: this.#heartbeatAtMs,
      groupsInFlight: this.#open.size - this.#queue.size,
      rolloutsInFlight: this.#rolloutsInFlight,
      queueDepth: this.#queue.size,
      lastError: this.#failure?.message ?? this.#budget.lastError,
    }
  }

  get queued(): readonly VersionedTokens[] {
    return this.#queue.items().flatMap(versionedTokensOf)
  }

  async start(): Promise<void> {
    if (this.#state !== "idle") throw new CohortError("worker_failed", `the rollout worker is ${this.#state} and cannot be started`, { hint: "Make a new worker." })
    this.#enter("running")
    void this.#beat()
    void this.#admit()
  }

  /** Starts no new group; what is in flight goes on. */
  async pause(): Promise<void> {
    if (this.#state === "running") this.#enter("paused")
  }

  async resume(): Promise<void> {
    if (this.#state !== "paused") return
    this.#enter("running")
    void this.#admit()
  }

  /** @throws CohortError `internal` when the version goes back or is no version. */
  setPolicyVersion(version: number): void {
    if (!Number.isInteger(version) || version < this.#version)
      throw new CohortError("internal", `policy version ${version} follows ${this.#version}; versions are integers that never go back`)
    if (version > this.#version) {
      this.#taken.clear()
      this.#budget.stepped()
    }
    this.#version = version
    if (this.#options.overdue === "cancel" || this.#options.policy.cutsSurplus === true) this.#cancelOverdue()
    this.#notify()
    void this.#admit()
  }

  release(occurrence: number, reason: string): void {
    if (!this.#taken.delete(occurrence))
      throw new CohortError("internal", `prompt occurrence ${occurrence} was not taken at version ${this.#version}`)
    this.#emit({ kind: "group.dropped", groupId: `g${occurrence}`, occurrence, version: this.#version, reason })
    try {
      this.#budget.released(reason)
    } catch (error) {
      this.#fail(error)
    }
    this.#notify()
    void this.#admit()
  }

  /** Aborts what is in flight, waits for it up to `stopTimeoutMs`, and gives back every occurrence that was not taken. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    const failedBefore = this.#state === "failed"
    if (!failedBefore) {
      this.#enter("stopped")
      this.#life.abort(new CohortError("aborted", "the rollout worker was stopped"))
      this.#queue.close()
      this.#notify()
    }
    const { clock, stopTimeoutMs, log } = this.#options
    try {
      const never = new AbortController().signal
      await withDeadline({ clock, timeoutMs: stopTimeoutMs, signal: never, what: "stopping the rollouts" }, () => Promise.allSettled([...this.#tasks, this.#prompts.settled()]))
    } catch (error) {
      log(`${messageOf(error)}; ${this.#tasks.size} groups did not end in time`)
    }
    if (!failedBefore) this.#giveBackAll()
  }

  #iterate(): AsyncIterator<SampleGroup> {
    return {
      next: async () => {
        const value = await this.#take()
        return value === undefined ? { done: true, value: undefined } : { done: false, value }
      },
    }
  }

  async #take(): Promise<SampleGroup | undefined> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure
      if (this.#state === "stopped") return undefined
      const candidate = this.#queue.peek()
      if (candidate !== undefined && !this.#holds(candidate)) {
        const group = this.#decideOrFail(candidate)
        if (group !== undefined) return group
        continue
      }
      if (candidate === undefined && this.#prompts.exhausted && this.#open.size === 0) return undefined
      await Promise.race([this.#queue.changed(), this.#wake.promise])
    }
  }

  #holds(candidate: SampleGroup): boolean {
    if (this.#options.policy.waitsForOldest !== true) return false
    const deadlines = this.#inFlight().map(({ deadline }) => deadline)
    return mustWait(candidate.oldestVersion + this.#options.maxStaleness, deadlines, this.#snapshot())
  }

  #decideOrFail(candidate: SampleGroup): SampleGroup | undefined {
    try {
      return this.#decide(candidate)
    } catch (error) {
      this.#fail(error)
      throw this.#failure ?? error
    }
  }

  /** Takes the oldest group and lets the policy speak; undefined when it was dropped. */
  #decide(candidate: SampleGroup): SampleGroup | undefined {
    const decision = this.#options.policy.decide(candidate, this.#snapshot())
    this.#queue.tryTake()
    if (decision.action === "drop") {
      const invalid = candidate.oldestVersion < 0 || candidate.oldestVersion > this.#version
      const deadline = this.#open.get(candidate.occurrence)?.deadline ?? this.#version
      this.#drop(candidate.occurrence, invalid ? "version_invalid" : this.#tooLate(deadline), decision.because)
      return undefined
    }
    this.#leave(candidate.occurrence, { type: "take" })
    this.#taken.add(candidate.occurrence)
    this.#budget.taken()
    void this.#admit()
    const group = decision.maskBelowVersion === undefined ? candidate : maskedBelow(candidate, decision.maskBelowVersion)
    if (decision.weight === 1) return group
    return { ...group, samples: group.samples.map((sample) => ({ ...sample, weight: sample.weight * decision.weight })) }
  }

  /** Starts groups while servers, data and policy allow; one caller at a time, the others rely on the loop to look again. */
  async #admit(): Promise<void> {
    if (this.#admitting) return
    this.#admitting = true
    try {
      for (let because = this.#mayAdmit(); because !== null; because = this.#mayAdmit()) {
        const prompt = await this.#prompts.next()
        if (prompt === undefined) this.#notify()
        else if (this.#state === "running") this.#launch(prompt, because)
        else this.#prompts.hold(prompt)
      }
    } catch (error) {
      if (!this.#life.signal.aborted) this.#fail(error)
    } finally {
      this.#admitting = false
      if (this.#life.signal.aborted) this.#prompts.giveBackHeld()
    }
  }

  /** The policy's sentence when one more group may start, else null. */
  #mayAdmit(): string | null {
    if ((this.#state !== "running" && this.#state !== "paused") || this.#prompts.exhausted) return null
    const allowed = this.#admission()
    const nowMs = this.#options.clock.now()
    if (typeof allowed !== "string") {
      this.#block = { sinceMs: this.#block?.endedAtMs === undefined ? (this.#block?.sinceMs ?? nowMs) : nowMs, by: allowed.by }
      return null
    }
    if (this.#block?.endedAtMs === undefined && this.#block !== undefined) this.#block = { ...this.#block, endedAtMs: nowMs }
    else if (this.#block?.endedAtMs !== nowMs) this.#block = undefined
    return allowed
  }

  #admission(): string | { readonly by: AdmissionBlock } {
    const { policy, maxGroupsInFlight, maxConcurrentRollouts, groupSize } = this.#options
    if (this.#state === "paused") return { by: "paused" }
    // Groups that wait for room in the queue hold their place: a slow trainer stops admission.
    const overflow = Math.max(0, this.#queue.size - this.#queue.capacity)
    const inFlight = this.#open.size - this.#queue.size
    if (inFlight + overflow >= maxGroupsInFlight) return { by: overflow > 0 ? "queue" : "servers" }
    if (this.#rolloutsInFlight + groupSize > maxConcurrentRollouts) return { by: "servers" }
    const { groups, because } = policy.capacity(this.#snapshot())
    return groups >= 1 ? because : { by: "policy" }
  }

  #launch(prompt: PromptOccurrence, because: string): void {
    const { occurrence, row } = prompt
    const id = `g${occurrence}`
    if (this.#open.has(occurrence)) throw new CohortError("internal", `prompt occurrence ${occurrence} was handed out twice`)
    const open: OpenGroup = { state: admitGroup(id, occurrence, this.#options.groupSize), active: 0, deadline: deadlineOf(this.#snapshot()), cancel: new AbortController() }
    this.#open.set(occurrence, open)
    this.#count(open)
    this.#emit({ kind: "group.admitted", groupId: id, occurrence, version: this.#version, reason: because, data: { row: row.id, ...(row.environment === undefined ? {} : { environment: row.environment }) } })
    const blockedMs = this.#block?.endedAtMs === undefined ? 0 : this.#block.endedAtMs - this.#block.sinceMs
    const task = this.#runGroup(id, prompt, open, { blockedMs, blockedBy: blockedMs > 0 ? this.#block?.by : undefined }).catch((error: unknown) => this.#fail(error))
    this.#tasks.add(task)
    void task.finally(() => {
      this.#tasks.delete(task)
      this.#notify()
      void this.#admit()
    })
  }

  async #runGroup(id: string, prompt: PromptOccurrence, open: OpenGroup, blocked: GroupJob["blocked"]): Promise<void> {
    const { signal } = this.#life
    const onLifeEnd = (): void => open.cancel.abort(signal.reason)
    signal.addEventListener("abort", onLifeEnd, { once: true })
    const onState = (state: GroupState): void => {
      open.state = state
      this.#heartbeatAtMs = this.#options.clock.now()
      // Members that are done make room for another group while the rest is still running.
      if (this.#open.has(prompt.occurrence) && this.#count(open)) void this.#admit()
    }
    const job = { ...prompt, id, signal: open.cancel.signal, blocked, policyVersion: () => this.#version, onState }
    const outcome = await runGroup(job, { ...this.#options, emit: (event) => this.#emitWhileAlive(event) }).finally(() => signal.removeEventListener("abort", onLifeEnd))
    if (signal.aborted) return
    // Cancelled as overdue: it has ended already.
    if (outcome.kind === "interrupted" || open.cancel.signal.aborted) return
    if (outcome.kind === "dropped") {
      this.#drop(prompt.occurrence, outcome.reason, outcome.error)
      return
    }
    this.#budget.generated()
    const group: SampleGroup = { ...outcome.group, queuedAtMs: this.#options.clock.now() }
    open.state = reduceGroup(open.state, { type: "queue" }, this.#options.rules)
    this.#emit({ kind: "group.queued", groupId: id, occurrence: prompt.occurrence, version: group.oldestVersion, data: { depth: this.#queue.size + 1 } })
    await this.#queue.push(group, signal).catch((error: unknown) => {
      // Stopped while it waited for room: `stop` gives the occurrence back.
      if (!signal.aborted) throw error
    })
  }

  #cancelOverdue(): void {
    for (const [occurrence, open] of this.#open) {
      // What is being scored is nearly there: only what still holds a place of the servers is cut.
      if (open.deadline >= this.#version || activeMembers(open.state) === 0) continue
      open.cancel.abort(timerOver)
      this.#drop(occurrence, this.#tooLate(open.deadline), `its last step ${open.deadline} has passed while it was generated`)
    }
  }

  /** Of a group that is above the bound: others were faster, which oversampling is for, or it is older than it should be. */
  #tooLate(deadline: number): DropReason {
    return this.#options.policy.cutsSurplus === true && deadline < this.#version ? "surplus" : "stale"
  }

  /** Ends an occurrence as dropped, and fails the worker once too many in a row ended so. */
  #drop(occurrence: number, reason: DropReason, error: string): void {
    const open = this.#open.get(occurrence)
    const id = open?.state.id
    this.#leave(occurrence, { type: "drop", reason, error })
    this.#emit({ kind: "group.dropped", ...(id === undefined ? {} : { groupId: id }), occurrence, version: this.#version, reason, data: { because: error } })
    this.#countDrop(reason, error, open)
    this.#notify()
    void this.#admit()
  }

  #countDrop(reason: DropReason, error: string, open: OpenGroup | undefined): void {
    // Overtaken by the trainer while it waited: the price of a policy that drops, no sign of a fault.
    if (reason === "surplus" || (reason === "stale" && open !== undefined && open.deadline < this.#version)) return
    this.#budget.dropped(reason, error)
  }

  #leave(occurrence: number, action: GroupAction): void {
    const open = this.#open.get(occurrence)
    if (open === undefined) throw new CohortError("internal", `prompt occurrence ${occurrence} leaves the worker twice`)
    if (open.state.phase !== "dropped") reduceGroup(open.state, action, this.#options.rules)
    this.#open.delete(occurrence)
    this.#rolloutsInFlight -= open.active
    open.active = 0
  }

  /** Brings the places that a group holds up to date; true when it holds fewer than before. */
  #count(open: OpenGroup): boolean {
    const active = activeMembers(open.state)
    const freed = open.active - active
    open.active = active
    this.#rolloutsInFlight -= freed
    return freed > 0
  }

  #giveBackAll(): void {
    this.#queue.drain()
    for (const [occurrence, open] of [...this.#open].toSorted(([a], [b]) => a - b)) {
      this.#leave(occurrence, { type: "giveBack" })
      this.#emit({ kind: "group.givenBack", groupId: open.state.id, occurrence, version: this.#version, reason: this.#state })
      this.#options.onGiveBack(occurrence)
    }
    this.#prompts.giveBackHeld()
  }

  #fail(error: unknown): void {
    if (this.#failure !== undefined || this.#state === "stopped") return
    // A typed cause stays what it is: a reward that aborts the run, a row that names no environment.
    this.#failure = new CohortError(isCohortError(error) ? error.code : "worker_failed", `the rollout worker failed: ${messageOf(error)}`, {
      cause: error,
      ...(isCohortError(error) && error.hint !== undefined ? { hint: error.hint } : {}),
    })
    this.#life.abort(this.#failure)
    this.#queue.fail(this.#failure)
    try {
      this.#enter("failed")
      this.#giveBackAll()
    } catch (second) {
      // The first error is what the caller must hear; the ledger that refuses events is often its cause.
      this.#state = "failed"
      this.#options.log(`after the failure: ${messageOf(second)}`)
    }
    this.#notify()
  }

  async #beat(): Promise<void> {
    const { clock, heartbeatMs } = this.#options
    const { signal } = this.#life
    while (!signal.aborted) {
      this.#heartbeatAtMs = clock.now()
      // The sleep is cut when the worker ends, and the loop with it.
      await clock.sleep(heartbeatMs, signal).catch(() => undefined)
    }
  }

  #enter(state: WorkerStatus["state"]): void {
    this.#state = state
    this.#emit({ kind: "worker.state", version: this.#version, reason: this.#failure?.message ?? state, data: { state } })
  }

  #inFlight(): readonly OpenGroup[] {
    return [...this.#open.values()].filter(({ state }) => state.phase !== "queued")
  }

  #snapshot(): PipelineState {
    const { maxStaleness, groupsPerStep, stepsPerSync } = this.#options
    const groupsQueued = this.#queue.size
    return {
      version: this.#version,
      maxStaleness,
      groupsPerStep,
      stepsPerSync,
      groupsInFlight: this.#open.size - groupsQueued,
      groupsQueued,
      groupsTaken: this.#taken.size,
    }
  }

  #emit(event: Omit<RolloutEvent, "atMs">): void {
    this.#options.emit({ ...event, atMs: this.#options.clock.now() })
  }

  /** A group that runs on after the end has nothing more to tell: its occurrence is given back. */
  #emitWhileAlive(event: RolloutEvent): void {
    if (!this.#life.signal.aborted) this.#options.emit(event)
  }

  #notify(): void {
    const { resolve } = this.#wake
    this.#wake = Promise.withResolvers<void>()
    resolve()
  }
}
