// The side that holds the worker: does what the run asks over the port, and tells it everything that happens, in order.
import { CohortError, isCohortError } from "@cohort/errors"
import type { GenerateRequest, Generation, InferenceServer } from "@cohort/inference"
import { buffersOf, fromPlain, toPlain } from "@cohort/thread"
import type { Awaitable } from "@cohort/env"
import { listenToAbort, unlistenToAbort } from "../abort-listeners.ts"
import type { Clock, RolloutEvent, RolloutWorker, SampleGroup } from "../protocol.ts"
import type { Throttle } from "../throttle.ts"
import { timerOver } from "../timer-over.ts"
import type { PromptOccurrence, RolloutWorkerOptions } from "../worker-options.ts"
import type { CallName, ToHost, ToRun } from "./message.ts"
import type { WorkerPort } from "./port.ts"

/** What a worker gets from its run: the ends of its options that stay there. */
export interface RunLink<Settings> extends Pick<RolloutWorkerOptions, "emit" | "onGiveBack" | "log" | "nextPrompt"> {
  /** What `connectRolloutWorker` was given. */
  readonly settings: Settings
  /** As the run's watch sets it; for `throttled`. */
  readonly throttle: Throttle
  /** The run's servers, asked over the port: routing, retries and the versions of their weights stay in one place. */
  readonly server: Pick<InferenceServer, "generate">
}

/** A worker, and what is to be closed once it has stopped. */
export interface HostedWorker {
  readonly worker: RolloutWorker
  readonly close?: () => Awaitable<void>
}

export interface HostOptions {
  readonly clock: Clock
  /** Time between two reports of the status while nothing happens; the run counts a worker as hung that sends none. */
  readonly heartbeatMs: number
}

/**
 * Makes a rollout worker at the end of `port` and serves it. `open` gets what the run gave; what it throws is what the run's `start` throws. When the run is
 * gone the worker is stopped.
 *
 * @example
 * // rollouts.ts, started as a thread
 * serveRolloutWorker<Settings>(portToRun(), async ({ settings, ...link }) => ({ worker: createRolloutWorker({ ...(await optionsOf(settings)), ...link }) }), { clock: systemClock, heartbeatMs: 1_000 })
 */
export function serveRolloutWorker<Settings>(port: WorkerPort, open: (link: RunLink<Settings>) => Awaitable<HostedWorker>, options: HostOptions): void {
  const host = new Host<Settings>(port, open, options)
  port.listen((message) => void host.receive(message as ToHost), () => void host.end())
}

class Host<Settings> {
  readonly #port: WorkerPort
  readonly #open: (link: RunLink<Settings>) => Awaitable<HostedWorker>
  readonly #options: HostOptions
  readonly #life = new AbortController()
  readonly #asked = new Map<number, PromiseWithResolvers<PromptOccurrence | undefined>>()
  readonly #generations = new Map<number, PromiseWithResolvers<Generation[]>>()
  readonly #throttle: Throttle = { maxAhead: Number.POSITIVE_INFINITY }
  #worker: RolloutWorker | undefined
  #close: HostedWorker["close"]
  #groups: AsyncIterator<SampleGroup> | undefined
  #news: RolloutEvent[] = []
  #newsComing = false
  #ids = 0

  constructor(port: WorkerPort, open: (link: RunLink<Settings>) => Awaitable<HostedWorker>, options: HostOptions) {
    this.#port = port
    this.#open = open
    this.#options = options
  }

  async receive(message: ToHost): Promise<void> {
    try {
      switch (message.type) {
        case "open":
          return await this.#call(message.id, () => this.#make(message.settings as Settings))
        case "start":
        case "pause":
        case "resume":
        case "stop":
          return await this.#call(message.id, () => this.#do(message.type))
        case "next":
          return await this.#next(message.id)
        case "version":
          return this.#worker?.setPolicyVersion(message.version)
        case "release":
          return this.#worker?.release(message.occurrence, message.reason)
        case "throttle":
          this.#throttle.maxAhead = message.maxAhead
          return
        case "prompt":
          return this.#answer(message.id)?.resolve(message.prompt)
        case "noPrompt":
          return this.#answer(message.id)?.reject(fromPlain(message.error))
        case "generated":
          return this.#generation(message.id)?.resolve([...message.generations])
        case "notGenerated":
          return this.#generation(message.id)?.reject(fromPlain(message.error))
      }
    } catch (error) {
      this.#post({ type: "fault", error: toPlain(error, "internal") })
    }
  }

  /** The run is gone: nobody trains what is made here. */
  async end(): Promise<void> {
    if (this.#worker !== undefined) await this.#stop(this.#worker)
  }

  async #stop(worker: RolloutWorker): Promise<void> {
    await worker.stop()
    this.#life.abort(timerOver)
    const close = this.#close
    this.#close = undefined
    await close?.()
  }

  async #call(id: number, body: () => Promise<void>): Promise<void> {
    try {
      await body()
      this.#tellNews()
      this.#post({ type: "done", id })
    } catch (error) {
      this.#tellNews()
      this.#post({ type: "failed", id, error: toPlain(error, "worker_failed") })
    }
  }

  async #make(settings: Settings): Promise<void> {
    const { worker, close } = await this.#open({
      settings,
      throttle: this.#throttle,
      emit: (event) => {
        this.#news.push(event)
        this.#tellSoon()
      },
      onGiveBack: (occurrence) => this.#post({ type: "giveBack", occurrence }),
      log: (message) => this.#post({ type: "log", message }),
      nextPrompt: () => this.#ask(),
      server: { generate: (request) => this.#generate(request) },
    })
    this.#worker = worker
    this.#close = close
    this.#groups = worker.samples[Symbol.asyncIterator]()
    void this.#beat()
  }

  async #do(name: Exclude<CallName, "open">): Promise<void> {
    if (this.#worker === undefined) throw new CohortError("worker_failed", `there is no rollout worker to ${name}`)
    if (name === "stop") await this.#stop(this.#worker)
    else await this.#worker[name]()
  }

  async #next(id: number): Promise<void> {
    try {
      const next = await this.#groups?.next()
      this.#tellNews()
      if (next === undefined || next.done === true) this.#post({ type: "end", id })
      // The worker is done with a group that was taken: its arrays move.
      else this.#post({ type: "group", id, group: next.value }, buffersOf(next.value.samples))
    } catch (error) {
      this.#tellNews()
      this.#post({ type: "failed", id, error: toPlain(error, "worker_failed") })
    }
  }

  #ask(): Promise<PromptOccurrence | undefined> {
    const id = this.#ids++
    const asked = Promise.withResolvers<PromptOccurrence | undefined>()
    this.#asked.set(id, asked)
    this.#post({ type: "needPrompt", id })
    return asked.promise
  }

  #answer(id: number): PromiseWithResolvers<PromptOccurrence | undefined> | undefined {
    const asked = this.#asked.get(id)
    this.#asked.delete(id)
    return asked
  }

  async #generate({ signal, ...request }: GenerateRequest): Promise<Generation[]> {
    signal.throwIfAborted()
    const id = this.#ids++
    const waiting = Promise.withResolvers<Generation[]>()
    const cut = {
      aborted: (reason: unknown) => {
        this.#generations.delete(id)
        this.#post({ type: "cut", id })
        waiting.reject(reason)
      },
    }
    this.#generations.set(id, waiting)
    this.#post({ type: "generate", id, request })
    listenToAbort(signal, cut)
    return waiting.promise.finally(() => unlistenToAbort(signal, cut))
  }

  #generation(id: number): PromiseWithResolvers<Generation[]> | undefined {
    const waiting = this.#generations.get(id)
    this.#generations.delete(id)
    return waiting
  }

  /** Events of one turn of the loop go together. */
  #tellSoon(): void {
    if (this.#newsComing) return
    this.#newsComing = true
    queueMicrotask(() => this.#tellNews())
  }

  #tellNews(): void {
    this.#newsComing = false
    const worker = this.#worker
    if (worker === undefined) return
    const events = this.#news
    this.#news = []
    const { heartbeatAtMs, ...status } = worker.status
    this.#port.post({ type: "news", events, status: { ...status, silentMs: this.#options.clock.now() - heartbeatAtMs }, queued: worker.queued } satisfies ToRun)
  }

  async #beat(): Promise<void> {
    const { signal } = this.#life
    while (!signal.aborted) {
      this.#tellNews()
      await this.#options.clock.sleep(this.#options.heartbeatMs, signal).catch((error: unknown) => {
        if (!signal.aborted && !isCohortError(error)) throw error
      })
    }
  }

  /** Nothing overtakes the events before it. */
  #post(message: ToRun, transfer?: readonly ArrayBuffer[]): void {
    if (this.#news.length > 0) this.#tellNews()
    this.#port.post(message, transfer)
  }
}
