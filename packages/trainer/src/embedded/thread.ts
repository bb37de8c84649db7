// The thread of the embedded backend: a native call blocks it and nothing else.
import type { CostModel } from "@cohort/batching"
import { type ModelRunner, runnerMethods } from "@cohort/engine"
import { createCompiledRunner } from "@cohort/engine/compiled"
import { CohortError } from "@cohort/errors"
import type { CheckpointFileOptions } from "@cohort/model"
import { openRuntime, type OpenOptions, type RuntimeInfo, type TensorRuntime } from "@cohort/tensor"
import { answerCalls, type Port } from "@cohort/thread"
import { createEmbeddedBackend, type EmbeddedAdapter, type EmbeddedBackend, type EmbeddedSettings } from "./backend.ts"
import { stepCost } from "./step-cost.ts"

let backend: EmbeddedBackend | undefined
let runner: ModelRunner | undefined
let runtime: TensorRuntime | undefined
let tensors: Iterator<unknown> | undefined

export interface RunnerRequest {
  readonly slots: number
  /** Absent: the model's own limit. */
  readonly maxModelLength?: number
}

/** What the thread says about itself once the model is resident. */
export interface ReadyMessage {
  readonly info: RuntimeInfo
  readonly parameters: number
  readonly trainedParameters: number
  readonly names: readonly string[]
  /** The thread can write a file of weights itself. */
  readonly writesFiles: boolean
  readonly adapter: Pick<EmbeddedAdapter, "names" | "config"> | undefined
  readonly packing: CostModel
}

answerCalls(globalThis as unknown as Port, {
  async open(runtimeOptions: OpenOptions, settings: EmbeddedSettings): Promise<ReadyMessage> {
    runtime = await openRuntime(runtimeOptions)
    backend = createEmbeddedBackend(runtime, settings)
    return { info: runtime.info, parameters: backend.policy.parameters, trainedParameters: backend.trained.parameters, names: backend.names, writesFiles: backend.writeFile !== undefined, adapter: backend.adapter && { names: backend.adapter.names, config: backend.adapter.config }, packing: stepCost(backend.policy.config, backend.policy.parameters) }
  },
  forwardBackward: (...args: Parameters<EmbeddedBackend["forwardBackward"]>) => backend!.forwardBackward(...args),
  optimStep: (...args: Parameters<EmbeddedBackend["optimStep"]>) => backend!.optimStep(...args),
  logProbs: (...args: Parameters<EmbeddedBackend["logProbs"]>) => backend!.logProbs(...args),
  entropies: (...args: Parameters<EmbeddedBackend["entropies"]>) => backend!.entropies(...args),
  moveReference: (mix: number) => backend!.moveReference(mix),
  beginTensors(of: "model" | "adapter", matrices: "f32" | "bf16") {
    tensors = (of === "model" ? backend!.tensors(matrices) : backend!.adapter!.tensors())[Symbol.iterator]()
  },
  /** The next tensor, or undefined after the last. */
  nextTensor: () => tensors!.next().value,
  writeWeights: (path: string, options: CheckpointFileOptions) => backend!.writeFile!(path, options),
  save: (dir: string) => backend!.save(dir),
  load: (dir: string) => backend!.load(dir),
  form: () => backend!.form(),
  counters: () => backend!.counters(),
  /** An engine's runner over the policy that is trained here. */
  async openRunner({ slots, maxModelLength }: RunnerRequest) {
    if (runtime!.raw === undefined)
      throw new CohortError("runtime_unavailable", "colocated inference needs libtensorflow", { hint: "Run `cohort runtime install`, or set inference.colocated to false." })
    const { maxPosition } = backend!.policy.config
    runner = await createCompiledRunner({ runtime: runtime!, model: { policy: backend!.servedPolicy() }, slots, maxModelLength: Math.min(maxPosition, maxModelLength ?? maxPosition) })
    return runner.info
  },
  ...runnerMethods(() => runner!),
  async close() {
    await runner?.close()
    backend?.close()
  },
})
