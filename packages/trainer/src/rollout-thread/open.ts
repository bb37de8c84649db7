// The run's end of its rollout thread.
import { connectRolloutWorker, portToThread, type RolloutWorker, type RolloutWorkerOptions } from "@cohort/rollout"
import type { WorkerContext } from "../run.ts"
import type { ThreadSettings } from "./thread.ts"

/** Opening loads plugins and a tokenizer. */
const callTimeoutMs = 60_000

/**
 * A worker in a thread of its own: episodes, tools, environments and rewards run there, prompts, servers and the ledger stay here. Plugins are loaded by the names in the
 * config; what was given to the run as code does not reach the thread.
 */
export function openRolloutThread(options: RolloutWorkerOptions, run: WorkerContext): RolloutWorker {
  const { config, env, installDirs, maxModelLength, modelFolder, projectDir, runFolder, slots, throttle } = run
  const thread = new Worker(new URL("./thread.ts", import.meta.url).href)
  return connectRolloutWorker<ThreadSettings>(portToThread(thread), {
    ...options,
    throttle,
    callTimeoutMs,
    settings: { config, env, installDirs, maxModelLength, modelFolder, projectDir, runFolder, slots, startVersion: options.startVersion },
  })
}
