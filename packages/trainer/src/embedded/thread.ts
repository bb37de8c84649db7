// The thread of the embedded backend: a native call blocks it and nothing else.
import { openRuntime, type OpenOptions, type RuntimeInfo } from "@cohort/tensor"
import { createEmbeddedBackend, type EmbeddedBackend, type EmbeddedSettings } from "./backend.ts"
import { answerCalls, type Port } from "./call.ts"

let backend: EmbeddedBackend | undefined
let tensors: Iterator<unknown> | undefined

/** What the thread says about itself once the model is resident. */
export interface ReadyMessage {
  readonly info: RuntimeInfo
  readonly parameters: number
  readonly names: readonly string[]
}

answerCalls(globalThis as unknown as Port, {
  async open(runtimeOptions: OpenOptions, settings: EmbeddedSettings): Promise<ReadyMessage> {
    const runtime = await openRuntime(runtimeOptions)
    backend = createEmbeddedBackend(runtime, settings)
    return { info: runtime.info, parameters: backend.policy.parameters, names: backend.names }
  },
  forwardBackward: (...args: Parameters<EmbeddedBackend["forwardBackward"]>) => backend!.forwardBackward(...args),
  optimStep: (...args: Parameters<EmbeddedBackend["optimStep"]>) => backend!.optimStep(...args),
  logProbs: (...args: Parameters<EmbeddedBackend["logProbs"]>) => backend!.logProbs(...args),
  beginTensors() {
    tensors = backend!.tensors()[Symbol.iterator]()
  },
  /** The next tensor of the policy with bytes of its own, or undefined after the last. */
  nextTensor() {
    const { value, done } = tensors!.next()
    if (done === true) return undefined
    const tensor = value as { bytes: Uint8Array }
    return { ...tensor, bytes: tensor.bytes.slice() }
  },
  save: (dir: string) => backend!.save(dir),
  load: (dir: string) => backend!.load(dir),
  form: () => backend!.form(),
  counters: () => backend!.counters(),
  close: () => backend?.close(),
})
