// The run's side: a `RolloutWorker` whose work is done at the other end of a port. It keeps the account of what was handed out, so that nothing is lost when
// that end is gone.
import { CohortError, toCohortError } from "@cohort/errors"
import type { GenerateRequest, InferenceServer } from "@cohort/inference"
import { fromPlain, toPlain } from "@cohort/thread"
import { withDeadline } from "../deadline.ts"
import type { RolloutEvent, RolloutWorker, SampleGroup, VersionedTokens, WorkerStatus } from "../protocol.ts"
import type { Throttle } from "../throttle.ts"
import { timerOver } from "../timer-over.ts"
import type { PromptOccurrence, RolloutWorkerOptions } from "../worker-options.ts"
import type { CallName, ToHost, ToRun } from "./message.ts"
import type { WorkerPort } from "./port.ts"

export interface RemoteWorkerOptions<Settings> extends Pick<RolloutWorkerOptions, "clock" | "emit" | "log" | "nextPrompt" | "onGiveBack" | "startVersion" | "stopTimeoutMs"> {
  /** What the other side makes its worker of; plain data. */
  readonly settings: Settings
  /** Servers that the other side may ask through this one. */
  readonly server?: Pick<InferenceServer, "generate">
  /** Sent along when it has changed. */
  readonly throttle?: Throttle
  /** Bounds opening, and each call but `stop`. */
  readonly callTimeoutMs: number
}

/**
 * Connects to a worker that `serveRolloutWorker` serves. `start` opens it. Events, groups and prompts cross in order; a group crosses when the trainer asks for one, so
 * that the other side's policy judges it at that moment and back-pressure holds. Reported status and queue are as old as the last message.
 *
 * When the other side ends by itself, the samples throw `worker_failed` with its words and everything that was handed out and not trained goes back.
 *
 * @example
 * const worker = connectRolloutWorker(portToThread(new Worker("./rollouts.ts")), { ...options, settings: { config } })
 */
export function connectRolloutWorker<Settings>(port: WorkerPort, options: RemoteWorkerOptions<Settings>): RolloutWorker {
  return new RemoteWorker(port, options)
}

class RemoteWorker<Settings> implements RolloutWorker {
  readonly samples: AsyncIterable<SampleGroup>
  readonly #port: WorkerPort
  readonly #options: RemoteWorkerOptions<Settings>
  readonly #life = new AbortController()
  readonly #calls = new Map<number, PromiseWithResolvers<void>>()
  readonly #asked = new Map<number, PromiseWithResolvers<IteratorResult<SampleGroup, undefined>>>()
  /** Occurrences handed out that have not ended; true once admitted. */
  readonly #open = new Map<number, boolean>()
  readonly #taken = new Set<number>()
  /** Requests that run for the other side. */
  readonly #generations = new Map<number, AbortController>()
  #status: WorkerStatus
  #queued: readonly VersionedTokens[] = []
  #version: number
  #throttled: number | undefined
  #failure: CohortError | undefined
  #stopped: Promise<void> | undefined
  #closed = false
  #ids = 0

  constructor(port: WorkerPort, options: RemoteWorkerOptions<Settings>) {
    this.#port = port
    this.#options = options
    this.#version = options.startVersion
    this.#status = { state: "idle", heartbeatAtMs: options.clock.now(), groupsInFlight: 0, rolloutsInFlight: 0, queueDepth: 0, lastError: undefined }
    this.samples = { [Symbol.asyncIterator]: () => ({ next: () => this.#next() }) }
    port.listen(
      (message) => this.#receive(message as ToRun),
      (why) => this.#die(new CohortError("worker_failed", `${port.name} is gone: ${why}`, { hint: "Look at its output; memory and a crash of a native library are the usual causes. The run can be resumed." })),
    )
  }

  get status(): WorkerStatus {
    return this.#status
  }

  get queued(): readonly VersionedTokens[] {
    return this.#queued
  }

  async start(): Promise<void> {
    const { settings, callTimeoutMs } = this.#options
    this.#sendThrottle()
    await this.#call("open", callTimeoutMs, { settings })
    await this.#call("start", callTimeoutMs)
  }

  pause(): Promise<void> {
    return this.#call("pause", this.#options.callTimeoutMs)
  }

  resume(): Promise<void> {
    return this.#call("resume", this.#options.callTimeoutMs)
  }

  setPolicyVersion(version: number): void {
    if (!Number.isInteger(version) || version < this.#version) throw new CohortError("internal", `policy version ${version} follows ${this.#version}; versions are integers that never go back`)
    if (version > this.#version) this.#taken.clear()
    this.#version = version
    this.#sendThrottle()
    this.#post({ type: "version", version })
  }

  release(occurrence: number, reason: string): void {
    if (!this.#taken.delete(occurrence)) throw new CohortError("internal", `prompt occurrence ${occurrence} was not taken at version ${this.#version}`)
    this.#post({ type: "release", occurrence, reason })
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    if (this.#failure === undefined) {
      try {
        // The other side has the same time for its rollouts; this is for its answer.
        await this.#call("stop", this.#options.stopTimeoutMs + this.#options.callTimeoutMs)
      } catch (error) {
        this.#options.log(toCohortError(error, "worker_failed").message)
      }
      if (this.#failure === undefined) this.#status = { ...this.#status, state: "stopped" }
    }
    this.#close()
    for (const asked of this.#asked.values()) asked.resolve({ done: true, value: undefined })
    this.#asked.clear()
    this.#giveBackOpen("stopped")
  }

  async #next(): Promise<IteratorResult<SampleGroup, undefined>> {
    if (this.#failure !== undefined) throw this.#failure
    if (this.#closed) return { done: true, value: undefined }
    this.#sendThrottle()
    const id = this.#ids++
    const asked = Promise.withResolvers<IteratorResult<SampleGroup, undefined>>()
    this.#asked.set(id, asked)
    this.#post({ type: "next", id })
    return asked.promise
  }

  async #call(type: CallName, timeoutMs: number, content: { readonly settings?: Settings } = {}): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    const id = this.#ids++
    const call = Promise.withResolvers<void>()
    this.#calls.set(id, call)
    this.#post({ type, id, ...content } as ToHost)
    const { clock } = this.#options
    try {
      await withDeadline({ clock, timeoutMs, signal: this.#life.signal, what: `${type} of ${this.#port.name}` }, () => call.promise)
    } finally {
      this.#calls.delete(id)
    }
  }

  #receive(message: ToRun): void {
    if (this.#closed) return
    try {
      this.#handle(message)
    } catch (error) {
      // A ledger that refuses an event, a cursor that refuses an occurrence: the run must not go on without its records.
      this.#die(toCohortError(error, "worker_failed"))
    }
  }

  #handle(message: ToRun): void {
    switch (message.type) {
      case "done":
        return this.#calls.get(message.id)?.resolve()
      case "failed":
        return this.#failed(message.id, fromPlain(message.error))
      case "group":
        return this.#deliver(message.id, message.group)
      case "end":
        return this.#settle(message.id)?.resolve({ done: true, value: undefined })
      case "needPrompt":
        return void this.#handOut(message.id)
      case "news": {
        const { silentMs, ...status } = message.status
        this.#status = { ...status, heartbeatAtMs: this.#options.clock.now() - silentMs }
        this.#queued = message.queued
        for (const event of message.events) this.#record(event)
        return
      }
      case "giveBack":
        this.#open.delete(message.occurrence)
        return this.#options.onGiveBack(message.occurrence)
      case "generate":
        return void this.#generate(message.id, message.request)
      case "cut":
        return this.#generations.get(message.id)?.abort(timerOver)
      case "log":
        return this.#options.log(message.message)
      case "fault":
        return this.#die(fromPlain(message.error))
    }
  }

  #record(event: RolloutEvent): void {
    const { kind, occurrence } = event
    if (occurrence !== undefined) {
      if (kind === "group.admitted") this.#open.set(occurrence, true)
      else if (kind === "group.dropped") this.#open.delete(occurrence)
      // Told by the event already; the occurrence itself comes back in a message of its own.
      else if (kind === "group.givenBack") this.#open.set(occurrence, false)
    }
    this.#options.emit(event)
  }

  #deliver(id: number, group: SampleGroup): void {
    this.#open.delete(group.occurrence)
    this.#taken.add(group.occurrence)
    this.#settle(id)?.resolve({ done: false, value: group })
  }

  #failed(id: number, error: CohortError): void {
    this.#calls.get(id)?.reject(error)
    this.#settle(id)?.reject(error)
  }

  #settle(id: number): PromiseWithResolvers<IteratorResult<SampleGroup, undefined>> | undefined {
    const asked = this.#asked.get(id)
    this.#asked.delete(id)
    return asked
  }

  async #handOut(id: number): Promise<void> {
    const { nextPrompt, onGiveBack } = this.#options
    let prompt: PromptOccurrence | undefined
    try {
      prompt = await nextPrompt(this.#life.signal)
      if (!this.#closed) {
        this.#post({ type: "prompt", id, prompt })
        if (prompt !== undefined) this.#open.set(prompt.occurrence, false)
        return
      }
    } catch (error) {
      this.#post({ type: "noPrompt", id, error: toPlain(error, "dataset_invalid") })
    }
    // Closed meanwhile, or a row that cannot cross.
    if (prompt !== undefined) onGiveBack(prompt.occurrence)
  }

  async #generate(id: number, request: Omit<GenerateRequest, "signal">): Promise<void> {
    const cut = new AbortController()
    this.#generations.set(id, cut)
    try {
      const { server } = this.#options
      if (server === undefined) throw new CohortError("worker_failed", "this run lends no servers", { hint: "Give `server` to connectRolloutWorker, or let the worker have its own." })
      this.#post({ type: "generated", id, generations: await server.generate({ ...request, signal: cut.signal }) })
    } catch (error) {
      if (!cut.signal.aborted) this.#post({ type: "notGenerated", id, error: toPlain(error, "inference_failed") })
    } finally {
      this.#generations.delete(id)
    }
  }

  /** The other side is gone, or what it said cannot be recorded. */
  #die(failure: CohortError): void {
    if (this.#closed) return
    this.#failure = failure
    this.#status = { ...this.#status, state: "failed", groupsInFlight: 0, rolloutsInFlight: 0, queueDepth: 0, lastError: failure.message }
    this.#queued = []
    this.#close()
    for (const waiting of [...this.#asked.values(), ...this.#calls.values()]) waiting.reject(failure)
    this.#asked.clear()
    try {
      this.#options.emit({ kind: "worker.state", atMs: this.#options.clock.now(), version: this.#version, reason: failure.message, data: { state: "failed" } })
      this.#giveBackOpen(failure.message)
    } catch (error) {
      // The first error is what the caller must hear; the ledger that refuses events is often its cause.
      this.#options.log(`after the failure: ${toCohortError(error).message}`)
    }
  }

  #giveBackOpen(reason: string): void {
    const open = [...this.#open].toSorted(([a], [b]) => a - b)
    this.#open.clear()
    for (const [occurrence, admitted] of open) {
      if (admitted) this.#options.emit({ kind: "group.givenBack", atMs: this.#options.clock.now(), groupId: `g${occurrence}`, occurrence, version: this.#version, reason })
      this.#options.onGiveBack(occurrence)
    }
  }

  #close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#port.close()
    for (const cut of this.#generations.values()) cut.abort(timerOver)
    this.#life.abort(this.#failure ?? new CohortError("aborted", "the rollout worker was stopped"))
  }

  #sendThrottle(): void {
    const maxAhead = this.#options.throttle?.maxAhead
    if (maxAhead === undefined || maxAhead === this.#throttled) return
    this.#throttled = maxAhead
    this.#post({ type: "throttle", maxAhead })
  }

  #post(message: ToHost): void {
    if (!this.#closed) this.#port.post(message)
  }
}
