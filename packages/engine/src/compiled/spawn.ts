// Runs a model runner in a worker thread: a chunk blocks its thread for tens of milliseconds, and HTTP must not wait for it.
import { CohortError } from "@cohort/errors"
import { startThread } from "@cohort/thread"
import { remoteRunner } from "../remote-runner.ts"
import type { ModelRunner, RunnerInfo } from "../runner.ts"
import type { OpenRunnerOptions } from "./open-runner.ts"

/** Plain data: it crosses the thread's border. */
export type SpawnRunnerOptions = OpenRunnerOptions

/**
 * Opens a runner in a worker of its own. Errors keep their code across the border. When the worker dies, pending and later calls fail
 * with `worker_failed`. `close` ends the worker.
 *
 * @param signal aborts the opening
 * @throws CohortError what opening the runtime or the model throws; `worker_failed`, `aborted`
 * @example
 * const runner = await spawnRunner({ runtime: { libraryPath }, folder: "models/tiny", slots: 64, dtype: "f32" })
 */
export async function spawnRunner(options: SpawnRunnerOptions, signal?: AbortSignal): Promise<ModelRunner> {
  signal?.throwIfAborted()
  const thread = startThread(new Worker(new URL("./worker.ts", import.meta.url).href), "the worker of the model runner", "Start the engine again; its log tells what happened before.")
  const onAbort = (): void => thread.fail(new CohortError("aborted", "the start of the model runner was interrupted", { cause: signal?.reason }))
  signal?.addEventListener("abort", onAbort, { once: true })
  try {
    const runner = remoteRunner(thread, await thread.call<RunnerInfo>("open", options))
    return { ...runner, close: () => runner.close().finally(thread.end) }
  } catch (error) {
    thread.end()
    throw error
  } finally {
    signal?.removeEventListener("abort", onAbort)
  }
}
