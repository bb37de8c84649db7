// The engine's loop: it drives the runner by the scheduler's word, and every call that reaches the runner goes through it,
// so no two native calls ever overlap.
import { CohortError, isCohortError, toCohortError } from "@cohort/errors"

import { queueChildren } from "./children.ts"
import { withDeadline } from "./deadline.ts"
import { defaultLabel, type Engine, type EngineOptions } from "./engine.ts"
import { createLatencies, observe } from "./metrics.ts"
import { createActiveRequest, type ActiveRequest } from "./request.ts"
import { createScheduler, type Progress } from "./scheduler.ts"
import { checkWeightsFolder } from "./weights-folder.ts"

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
    for (;;) {
      if (closed || dead !== undefined) break
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
      const { sequences, texts } = queueChildren(request, { scheduler, tokenizer, random, onTextFailure: (error) => drop(entry, error) })
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
      await checkWeightsFolder(folder)
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
}
