// Entry of the worker thread that owns a tensor runtime and a runner: options come as its first message, then calls.
import { openRunner, type OpenRunnerOptions } from "./open-runner.ts"
import { exposeRunner, type Port, toWire } from "./remote.ts"
import type { Greeting } from "./spawn.ts"

declare const self: Port

const start = (event: MessageEvent): void => {
  self.removeEventListener("message", start)
  void open(event.data as OpenRunnerOptions)
}

async function open(options: OpenRunnerOptions): Promise<void> {
  try {
    const runner = await openRunner(options)
    exposeRunner(self, runner)
    self.postMessage({ kind: "ready", info: runner.info } satisfies Greeting, [])
  } catch (thrown) {
    self.postMessage({ kind: "refused", error: toWire(thrown) } satisfies Greeting, [])
  }
}

self.addEventListener("message", start)
