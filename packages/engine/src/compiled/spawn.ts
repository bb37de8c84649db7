// Runs a model runner in a worker thread: a chunk blocks its thread for tens of milliseconds, and HTTP must not wait for it.
import { CohortError } from "@cohort/errors"
import type { ModelRunner, RunnerInfo } from "../runner.ts"
import type { OpenRunnerOptions } from "./open-runner.ts"
import { fromWire, remoteRunner, type RemoteRunner, type toWire } from "./remote.ts"

/** Plain data: it crosses the thread's border. */
export type SpawnRunnerOptions = OpenRunnerOptions

/** What the worker says once, before it answers calls. */
export type Greeting = { readonly kind: "ready"; readonly info: RunnerInfo } | { readonly kind: "refused"; readonly error: ReturnType<typeof toWire> }

/**
 * Opens a runner in a worker of its own. Errors keep their code across the border. When the worker dies, pending and later calls fail
 * with `worker_failed`. `close` ends the worker.
 *
 * @param options.signal aborts the opening
 * @throws CohortError what opening the runtime or the model throws; `worker_failed`, `aborted`
 * @example
 * const runner = await spawnRunner({ runtime: { libraryPath }, folder: "models/tiny", slots: 64, dtype: "f32" })
 */
export async function spawnRunner(options: SpawnRunnerOptions, signal?: AbortSignal): Promise<ModelRunner> {
  signal?.throwIfAborted()
  const worker = new Worker(new URL("./worker.ts", import.meta.url).href)
  const opened = Promise.withResolvers<RunnerInfo>()
  let remote: RemoteRunner | undefined
  let closing = false
  const die = (reason: string): void => {
    if (closing) return
    const error = new CohortError("worker_failed", `the worker of the model runner died: ${reason}`, { hint: "Start the engine again; its log tells what happened before." })
    opened.reject(error)
    remote?.fail(error)
  }
  worker.addEventListener("error", (event) => die(event.message))
  worker.addEventListener("close", (event) => die(`it ended with code ${String((event as { code?: number }).code ?? "unknown")}`))
  const greet = (event: MessageEvent): void => {
    const greeting = event.data as Greeting
    if (greeting.kind === "ready") opened.resolve(greeting.info)
    else if (greeting.kind === "refused") opened.reject(fromWire(greeting.error))
  }
  worker.addEventListener("message", greet)
  const onAbort = (): void => opened.reject(new CohortError("aborted", "the start of the model runner was interrupted", { cause: signal?.reason }))
  signal?.addEventListener("abort", onAbort, { once: true })
  worker.postMessage(options, [])
  try {
    const info = await opened.promise
    const runner = remoteRunner(worker, info)
    remote = runner
    return {
      ...runner,
      async close() {
        if (closing) return
        try {
          await runner.close()
        } finally {
          closing = true
          worker.terminate()
        }
      },
    }
  } catch (error) {
    closing = true
    worker.terminate()
    throw error
  } finally {
    worker.removeEventListener("message", greet)
    signal?.removeEventListener("abort", onAbort)
  }
}
