// A runner in another thread: whoever owns the runtime's thread answers with its methods, the engine's thread calls them.
import { CohortError } from "@cohort/errors"
import type { Caller, Handlers } from "@cohort/thread"
import type { ModelRunner, RunnerInfo } from "./runner.ts"

/** What the thread of a runner answers; `runner` gives the one of the moment. */
export function runnerMethods(runner: () => ModelRunner): Handlers {
  return {
    prefill: (...args: Parameters<ModelRunner["prefill"]>) => runner().prefill(...args),
    decode: (...args: Parameters<ModelRunner["decode"]>) => runner().decode(...args),
    score: (...args: Parameters<ModelRunner["score"]>) => runner().score(...args),
    loadWeights: (...args: Parameters<ModelRunner["loadWeights"]>) => runner().loadWeights(...args),
    close: () => runner().close(),
  }
}

/** The runner whose methods the other end of `caller` answers; `info` is that runner's. Calls after `close` fail with `inference_failed`. */
export function remoteRunner(caller: Caller, info: RunnerInfo): ModelRunner {
  let closing: Promise<void> | undefined
  const close = async (): Promise<void> => {
    try {
      await caller.call("close")
    } finally {
      caller.fail(new CohortError("inference_failed", "the model runner is closed"))
    }
  }
  return {
    info,
    prefill: (requests) => caller.call("prefill", requests),
    decode: (inputs, steps, topLogProbs) => caller.call("decode", inputs, steps, topLogProbs),
    score: (tokenIds) => caller.call("score", tokenIds),
    loadWeights: (folder) => caller.call("loadWeights", folder),
    close: () => (closing ??= close()),
  }
}
