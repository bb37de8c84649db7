// The embedded backend as the training loop sees it: calls into its thread.
import type { CostModel } from "@cohort/batching"
import { type ModelRunner, remoteRunner, type RunnerInfo } from "@cohort/engine"
import { CohortError } from "@cohort/errors"
import type { OpenOptions, RuntimeInfo } from "@cohort/tensor"
import { startThread } from "@cohort/thread"
import type { WeightSource, WeightTensor } from "@cohort/weight-transfer"
import type { TrainerBackend } from "../backend.ts"
import { companionFiles, type EmbeddedSettings } from "./backend.ts"
import type { FormChoice } from "./form.ts"
import type { ReadyMessage, RunnerRequest } from "./thread.ts"

export interface SpawnedBackend extends TrainerBackend {
  readonly packing: CostModel
  readonly lanes: number
  readonly info: RuntimeInfo
  readonly parameters: number
  /** Fewer than all where only an adapter is trained. */
  readonly trainedParameters: number
  /** The adapter alone, in PEFT's layout; undefined where all weights are trained. */
  adapter(): WeightSource | undefined
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
  const thread = startThread(new Worker(new URL("./thread.ts", import.meta.url).href), "the trainer thread")
  let ready: ReadyMessage
  try {
    ready = await thread.call<ReadyMessage>("open", runtime, settings)
  } catch (error) {
    thread.end()
    throw error
  }
  const tensorsOf = (of: "model" | "adapter", matrices: "f32" | "bf16") =>
    async function* (): AsyncGenerator<WeightTensor> {
      await thread.call("beginTensors", of, matrices)
      for (;;) {
        const tensor = await thread.call<WeightTensor | undefined>("nextTensor")
        if (tensor === undefined) return
        yield tensor
      }
    }
  return {
    info: ready.info,
    parameters: ready.parameters,
    trainedParameters: ready.trainedParameters,
    packing: ready.packing,
    lanes: ready.info.lanes,
    forwardBackward: (batch, objective) => thread.call("forwardBackward", batch, objective),
    optimStep: (step) => thread.call("optimStep", step),
    logProbs: (batch, which, temperature) => thread.call("logProbs", batch, which, temperature),
    entropies: (batch, temperature) => thread.call("entropies", batch, temperature),
    moveReference: (mix) => thread.call("moveReference", mix),
    weights: (matrices = "f32") => ({
      names: ready.names,
      companionFiles: companionFiles(settings.modelFolder),
      tensors: tensorsOf("model", matrices),
      ...(ready.writesFiles ? { writeFile: (path, metadata) => thread.call("writeWeights", path, { matrices, metadata }) } : {}),
    }),
    adapter: () => ready.adapter && { names: ready.adapter.names, companionFiles: { "adapter_config.json": `${JSON.stringify(ready.adapter.config, null, 2)}\n` }, tensors: tensorsOf("adapter", "f32") },
    save: (dir) => thread.call("save", dir),
    load: (dir) => thread.call("load", dir),
    async openRunner(request) {
      const info = await thread.call<RunnerInfo>("openRunner", request)
      return {
        ...remoteRunner(thread, info),
        loadWeights: () => Promise.reject(new CohortError("inference_rejected", "a colocated engine has the trainer's weights and loads none")),
        close: () => Promise.resolve(),
      }
    },
    form: () => thread.call("form"),
    counters: () => thread.call("counters"),
    async close() {
      await thread.call("close")
      thread.end()
    },
  }
}
