// The embedded backend as the training loop sees it: calls into its thread.
import type { ModelRunner, RunnerInfo } from "@cohort/engine"
import { CohortError } from "@cohort/errors"
import type { OpenOptions, RuntimeInfo } from "@cohort/tensor"
import type { WeightTensor } from "@cohort/weight-transfer"
import type { TrainerBackend } from "../backend.ts"
import { companionFiles, type EmbeddedSettings } from "./backend.ts"
import { createCaller, type Port } from "./call.ts"
import type { FormChoice } from "./form.ts"
import type { ReadyMessage, RunnerRequest } from "./thread.ts"

export interface SpawnedBackend extends TrainerBackend {
  readonly info: RuntimeInfo
  readonly parameters: number
  /** A runner over the resident policy, in the same thread: what it computes and what is trained take turns. */
  openRunner(request: RunnerRequest): Promise<ModelRunner>
  form(): Promise<FormChoice | undefined>
  counters(): Promise<{ readonly tensors: number; readonly bytes: number; readonly rss: number }>
}

/**
 * Starts the backend in a thread of its own.
 * @throws CohortError `runtime_unavailable`, `model_invalid`; later calls throw `worker_failed` when the thread died
 */
export async function spawnEmbeddedBackend(runtime: OpenOptions, settings: EmbeddedSettings): Promise<SpawnedBackend> {
  const worker = new Worker(new URL("./thread.ts", import.meta.url).href)
  const caller = createCaller(worker as unknown as Port)
  worker.addEventListener("error", (event) => caller.fail(new CohortError("worker_failed", `the trainer thread failed: ${event.message}`)))
  worker.addEventListener("close", () => caller.fail(new CohortError("worker_failed", "the trainer thread ended")))
  let ready: ReadyMessage
  try {
    ready = await caller.call<ReadyMessage>("open", runtime, settings)
  } catch (error) {
    worker.terminate()
    throw error
  }
  return {
    info: ready.info,
    parameters: ready.parameters,
    forwardBackward: (batch, objective) => caller.call("forwardBackward", batch, objective),
    optimStep: (step) => caller.call("optimStep", step),
    logProbs: (batch, which, temperature) => caller.call("logProbs", batch, which, temperature),
    weights: () => ({
      names: ready.names,
      companionFiles: companionFiles(settings.modelFolder),
      async *tensors() {
        await caller.call("beginTensors")
        for (;;) {
          const tensor = await caller.call<WeightTensor | undefined>("nextTensor")
          if (tensor === undefined) return
          yield tensor
        }
      },
    }),
    save: (dir) => caller.call("save", dir),
    load: (dir) => caller.call("load", dir),
    async openRunner(request) {
      const info = await caller.call<RunnerInfo>("openRunner", request)
      return {
        info,
        prefill: (requests) => caller.call("prefill", requests),
        decode: (inputs, steps, topLogProbs) => caller.call("decode", inputs, steps, topLogProbs),
        score: (tokenIds) => caller.call("score", tokenIds),
        loadWeights: () => Promise.reject(new CohortError("inference_rejected", "a colocated engine has the trainer's weights and loads none")),
        close: () => Promise.resolve(),
      }
    },
    form: () => caller.call("form"),
    counters: () => caller.call("counters"),
    async close() {
      await caller.call("close")
      worker.terminate()
    },
  }
}
