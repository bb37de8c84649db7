// A runner from plain options: opens the tensor runtime of this thread, reads the model, and takes the runner that the backend allows.
import { availableParallelism, totalmem } from "node:os"
import { type ModelConfig, parameterCount, parameterLayout, readModelConfig } from "@cohort/model"
import { openRuntime, type OpenOptions } from "@cohort/tensor"
import type { ModelRunner } from "../runner.ts"
import { createCompiledRunner } from "./create-runner.ts"
import { chooseDtype, type RunnerDtype } from "./dtype.ts"
import { createFallbackRunner } from "./fallback.ts"
import { machineKey, shapeKey } from "./measured-key.ts"

export interface OpenRunnerOptions {
  readonly runtime: OpenOptions
  /** A Hugging Face model folder. */
  readonly folder: string
  /** Sequences that are computed at once. */
  readonly slots: number
  /** `auto`: by size and by a measurement, see dtype.ts. */
  readonly dtype: "f32" | "bf16" | "auto"
  /** Most tokens of a sequence; absent: the model's limit, or what fits a quarter of the machine's memory. */
  readonly maxModelLength?: number
  /** File that remembers which form and type of decoding are fastest on this machine. */
  readonly formMemory?: string
}

const tinyModel = 2_000_000
/** Each lane reads all weights, so more of them soon wait for memory. */
const mostLanes = 4

/**
 * @throws CohortError `runtime_unavailable`, `model_invalid`, `config_invalid`
 */
export async function openRunner(options: OpenRunnerOptions): Promise<ModelRunner> {
  const config = readModelConfig(options.folder)
  const parameters = parameterCount(parameterLayout(config))
  const cores = coresFor(parameters, options.runtime.threads ?? (parameters < tinyModel ? 1 : availableParallelism()))
  // A tiny model finds a second thread slower than its own, and leaves the other cores to the trainer.
  const runtime = await openRuntime({ ...options.runtime, ...cores })
  const open = (dtype: RunnerDtype): ModelRunner => {
    const maxModelLength = Math.min(config.maxPosition, options.maxModelLength ?? lengthThatFits(config, options.slots, dtype, totalmem() / 4))
    const settings = { runtime, lanes: cores.lanes, model: { folder: options.folder }, slots: options.slots, maxModelLength, dtype, ...(options.formMemory === undefined ? {} : { formMemory: options.formMemory }) }
    return runtime.raw === undefined ? createFallbackRunner(settings) : createCompiledRunner(settings)
  }
  const key = `dtype, ${machineKey(runtime)}, ${shapeKey(config)}, ${options.slots} slots, ${cores.lanes} lanes`
  const chosen = (): Promise<RunnerDtype> => chooseDtype({ parameters, key, memory: runtime.raw === undefined ? undefined : options.formMemory, open, now: () => performance.now() })
  const runner = open(options.dtype === "auto" ? await chosen() : options.dtype)
  if (runtime.raw !== undefined) await warmUp(runner)
  return {
    ...runner,
    async close() {
      await runner.close()
      runtime.close()
    },
  }
}

/**
 * How the cores are used. Halves of a batch side by side, each on a thread of its own, beat one batch on two threads that wait for
 * each other between its many small ops. A model that is tiny is one program, not many ops.
 */
export function coresFor(parameters: number, cores: number): { readonly threads: number; readonly lanes: number } {
  const lanes = parameters < tinyModel ? 1 : Math.min(cores, mostLanes)
  return { threads: Math.max(1, Math.floor(cores / lanes)), lanes }
}

/** Compiles what the first requests need: a short prefill, and decoding of all slots. Slots hold nothing yet that it could spoil. */
async function warmUp(runner: ModelRunner): Promise<void> {
  const { slots, maxModelLength } = runner.info
  await runner.prefill([{ tokenIds: new Int32Array(Math.min(maxModelLength, 16)), slots: [0] }])
  const input = { lastToken: 0, position: 0, seed: 0, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, history: new Int32Array(0) }
  await runner.decode(Array.from({ length: slots }, (_, slot) => ({ ...input, slot })), 1, 0)
}

/** Longest context whose cache for all slots stays within `bytes`, at least 256 tokens. */
export function lengthThatFits(config: ModelConfig, slots: number, dtype: "f32" | "bf16", bytes: number): number {
  const perToken = 2 * config.layers * config.kvHeads * config.headDim * (dtype === "bf16" ? 2 : 4) * slots
  return Math.max(256, Math.floor(bytes / perToken / 64) * 64)
}
