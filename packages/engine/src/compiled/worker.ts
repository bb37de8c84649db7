// The worker thread that owns a tensor runtime and a runner: `open` first, then the runner's methods.
import { answerCalls, type Port } from "@cohort/thread"
import { runnerMethods } from "../remote-runner.ts"
import type { ModelRunner, RunnerInfo } from "../runner.ts"
import { openRunner, type OpenRunnerOptions } from "./open-runner.ts"

let runner: ModelRunner | undefined

answerCalls(
  globalThis as unknown as Port,
  {
    async open(options: OpenRunnerOptions): Promise<RunnerInfo> {
      runner = await openRunner(options)
      return runner.info
    },
    ...runnerMethods(() => runner!),
  },
  "tensor_failed",
)
