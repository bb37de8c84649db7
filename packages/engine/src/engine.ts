// The engine: one loop that drives the runner by the scheduler's word, and the calls that reach into that loop.
// Everything that touches the runner goes through the loop, so no two native calls ever overlap.
import { readdir } from "node:fs/promises"

import { CohortError, isCohortError, toCohortError } from "@cohort/errors"
import type { PauseMode } from "@cohort/inference"

import { withDeadline } from "./deadline.ts"
import { createLatencies, observe, type EngineMetrics } from "./metrics.ts"
import { createOutputText, type OutputText } from "./output-text.ts"
import { createActiveRequest, type ActiveRequest, type EngineRequest, type Submission } from "./request.ts"
import type { ModelRunner, RunnerInfo } from "./runner.ts"
import { createScheduler, type Progress } from "./scheduler.ts"
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

interface Command {
  readonly run: () => Promise<void>
  readonly fail: (error: CohortError) => void
}

interface PauseWaiter {
  readonly resolve: () => void
  readonly reject: (error: CohortError) => void
}

/** Creates an engine around a runner and starts its loop. Throws nothing by itself; see the methods of {@link Engine}. */
export function createEngine(options: EngineOptions): Engine {
  const { runner, tokenizer, modelName, now, random } = options
  const callDeadlineMs = options.callDeadlineMs ?? 30 * 60_000
  const scheduler = createScheduler(runner.info)
  const latencies = createLatencies()
  const active = new Set<ActiveRequest>()
  const owner = new Map<number, ActiveRequest>()
  let commands: Command[] = []
  let pauseWaiters: PauseWaiter[] = []
  let wake: (() => void) | undefined
  // Set by whatever gives the loop something to do, so that news between its last look and its wait are not lost.
  let news = false
  let label = options.version === undefined ? defaultLabel : String(options.version)
  let paused = false
  let dead: CohortError | undefined
  let brokenWeights: CohortError | undefined
  let closed = false

  function refusal(): CohortError | undefined {
    if (dead !== undefined) return dead
    if (closed) return new CohortError("inference_failed", "The engine is closed.")
    return brokenWeights
  }

  function failAll(error: CohortError): void {
    scheduler.abortAll()
    for (const request of active) request.fail(error)
    active.clear()
    owner.clear()
  }

  function publish(progress: Progress): void {
    const request = owner.get(progress.sequence.id)
    if (request === undefined) return
    if (progress.from === 0 && progress.sequence.outputIds.length > 0) observe(latencies.timeToFirstToken, (now() - request.startedAtMs) / 1000)
    if (progress.sequence.finish !== undefined) owner.delete(progress.sequence.id)
    if (!request.progress(progress.sequence, progress.from)) return
    active.delete(request)
    observe(latencies.endToEnd, (now() - request.startedAtMs) / 1000)
  }

  function abortRequest(request: ActiveRequest): void {
    for (const sequence of request.sequences) {
      if (sequence.finish !== undefined) continue
      scheduler.abort(sequence)
      publish({ sequence, from: sequence.outputIds.length })
    }
  }

  function drop(request: ActiveRequest, error: CohortError): void {
    if (!active.delete(request)) return
    for (const sequence of request.sequences) {
      scheduler.abort(sequence)
      owner.delete(sequence.id)
    }
    request.fail(error)
  }

  function wakeUp(): void {
    news = true
    wake?.()
  }

  function die(cause: unknown): void {
    dead ??= new CohortError("inference_failed", `The model runner failed: ${toCohortError(cause).message}`, {
      cause,
      hint: "Start the engine again; requests that were running can be sent again.",
    })
    failAll(dead)
  }

  /** A runner that stays silent is never called again: the engine dies with it. */
  async function call<Result>(what: string, promise: Promise<Result>): Promise<Result> {
    try {
      return await withDeadline(promise, callDeadlineMs, `no answer to ${what} in ${callDeadlineMs} ms`)
    } catch (cause) {
      if (isCohortError(cause) && cause.code === "timeout") die(cause)
      throw cause
    }
  }

  /** Runs `work` in the loop, between two runner calls. */
  function exclusive<Result>(work: () => Promise<Result>): Promise<Result> {
    const error = dead ?? (closed ? refusal() : undefined)
    if (error !== undefined) return Promise.reject(error)
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    commands.push({ run: () => work().then(resolve, reject), fail: reject })
    wakeUp()
    return promise
  }

  function settlePauses(settle: (waiter: PauseWaiter) => void): void {
    const waiters = pauseWaiters
    pauseWaiters = []
    waiters.forEach(settle)
  }

  async function turn(): Promise<"worked" | "idle"> {
    const todo = commands
    commands = []
    for (const command of todo) await command.run()
    const step = scheduler.next()
    if (step.kind === "idle") {
      if (paused && commands.length === 0) settlePauses((waiter) => waiter.resolve())
      return "idle"
    }
    if (step.kind === "prefill") await call("prefill", runner.prefill(step.requests))
    else {
      const stepLabel = label
      const output = await call("decode", runner.decode(step.inputs, step.steps, step.topLogProbs))
      scheduler.decoded(step, output, stepLabel).forEach(publish)
    }
    return "worked"
  }

  async function loop(): Promise<void> {
    while (!closed && dead === undefined) {
      try {
        news = false
        const done = await turn()
        if (done === "idle" && !news) {
          await new Promise<void>((resolve) => (wake = resolve))
          wake = undefined
        }
      } catch (cause) {
        die(cause)
      }
      // Lets sockets and timers have their turn when the runner answers without leaving the microtask queue.
      await new Promise((resume) => setImmediate(resume))
    }
    const reason = refusal()!
    for (const command of commands) command.fail(reason)
    commands = []
    settlePauses((waiter) => waiter.reject(reason))
  }

  const finished = loop()

  return {
    modelName,
    modelFolder: options.modelFolder ?? modelName,
    tokenizer,
    info: runner.info,
    contextLength: scheduler.contextLength,
    get versionLabel() {
      return label
    },
    get isPaused() {
      return paused
    },
    submit(request) {
      const error = refusal()
      if (error !== undefined) throw error
      if (request.signal?.aborted) throw new CohortError("aborted", "The request was aborted before it was queued.", { cause: request.signal.reason })
      const { sequences, texts } = queueChildren(request)
      const entry = createActiveRequest({ id: request.id, startedAtMs: now(), sequences, texts, stream: request.stream ?? false, onLeave: () => drop(entry, leftError()) })
      active.add(entry)
      for (const sequence of sequences) owner.set(sequence.id, entry)
      const onAbort = () => drop(entry, new CohortError("aborted", "The request was aborted by its sender.", { cause: request.signal?.reason }))
      request.signal?.addEventListener("abort", onAbort, { once: true })
      const unlisten = () => request.signal?.removeEventListener("abort", onAbort)
      entry.submission.result.then(unlisten, unlisten)
      wakeUp()
      return entry.submission
    },
    pause(mode, clearCache) {
      const error = dead ?? (closed ? refusal() : undefined)
      if (error !== undefined) return Promise.reject(error)
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const waiter = { resolve, reject }
      paused = true
      pauseWaiters.push(waiter)
      scheduler.setMode(mode === "wait" ? "drain" : "frozen")
      commands.push({
        run: async () => {
          // A resume that came first has rejected the waiter: then nothing may be ended any more.
          if (!pauseWaiters.includes(waiter)) return
          if (mode === "abort") for (const request of active) abortRequest(request)
          if (clearCache && mode !== "wait") scheduler.preemptAll()
        },
        fail: reject,
      })
      wakeUp()
      return promise
    },
    resume() {
      paused = false
      scheduler.setMode("run")
      settlePauses((waiter) => waiter.reject(new CohortError("aborted", "The pause was ended by a resume before generation had stopped.", { hint: "Let one owner pause and resume, and resume only after the pause has returned." })))
      wakeUp()
    },
    abort(ids) {
      for (const request of active) if (ids === undefined || (request.id !== undefined && ids.includes(request.id))) abortRequest(request)
    },
    async loadWeights(folder, version) {
      await checkFolder(folder)
      await exclusive(async () => {
        const startedAtMs = now()
        try {
          await call("loadWeights", runner.loadWeights(folder))
        } catch (cause) {
          brokenWeights = isCohortError(cause)
            ? cause
            : new CohortError("inference_failed", `Loading the weights of ${folder} failed: ${toCohortError(cause).message}`, { cause, hint: "The weights are in an unknown state: load a complete folder before generating again." })
          failAll(brokenWeights)
          throw brokenWeights
        }
        brokenWeights = undefined
        if (version !== undefined) label = String(version)
        observe(latencies.weightLoad, (now() - startedAtMs) / 1000)
      })
    },
    setVersion(version) {
      label = String(version)
    },
    score: (tokenIds) => exclusive(() => call("score", runner.score(tokenIds))),
    health: () => ({
      ready: refusal() === undefined,
      error: refusal(),
      running: scheduler.running,
      waiting: scheduler.waiting,
      kvUsage: scheduler.running / runner.info.slots,
      maxModelLength: scheduler.contextLength,
      versionLabel: label,
    }),
    metrics: () => ({
      running: scheduler.running,
      waiting: scheduler.waiting,
      kvUsage: scheduler.running / runner.info.slots,
      counters: scheduler.counters,
      latencies,
    }),
    async close() {
      if (!closed) {
        closed = true
        failAll(new CohortError("aborted", "The engine was closed while the request ran."))
        wakeUp()
      }
      await finished
      await runner.close()
    },
  }

  function leftError(): CohortError {
    return new CohortError("aborted", "The reader of the stream left before its end.")
  }

  function queueChildren(request: EngineRequest) {
    const stopTokens = new Map<number, number | null>()
    for (const id of request.stopTokenIds ?? []) stopTokens.set(id, id)
    if (!request.ignoreEos) tokenizer.eosTokenIds.forEach((id, index) => stopTokens.set(id, index === 0 ? null : id))
    const stop = request.stop ?? []
    const wantsText = request.text === true || stop.length > 0
    const texts: (OutputText | undefined)[] = []
    const sequences = Array.from({ length: request.n }, (_, index) => {
      const text = wantsText
        ? createOutputText(tokenizer, { stop, includeStop: request.includeStop ?? false, skipSpecialTokens: request.skipSpecialTokens ?? true, minTokens: request.minTokens ?? 0 })
        : undefined
      texts.push(text)
      return scheduler.add({
        promptIds: request.promptIds,
        maxTokens: request.maxTokens ?? scheduler.contextLength,
        minTokens: request.minTokens ?? 0,
        temperature: request.temperature,
        topP: request.topP,
        topK: request.topK,
        minP: request.minP,
        repetitionPenalty: request.repetitionPenalty,
        seed: request.seed === undefined ? Math.floor(random() * 2 ** 32) : (request.seed + index) >>> 0,
        stopTokens,
        topLogProbs: request.topLogProbs ?? 0,
        ...(text === undefined ? {} : { watch: text.push }),
      })
    })
    return { sequences, texts }
  }
}

/** A folder that cannot be read must not touch the weights that are loaded. */
async function checkFolder(folder: string): Promise<void> {
  const names = await readdir(folder).catch((cause: unknown) => {
    throw new CohortError("file_invalid", `The weights folder ${folder} cannot be read.`, { cause, hint: "Write the folder completely before asking for it; the server must see the same file system." })
  })
  if (!names.some((name) => name.endsWith(".safetensors")))
    throw new CohortError("file_invalid", `The folder ${folder} holds no .safetensors file.`, { hint: "Give a model folder in Hugging Face layout." })
}
