// A runner from plain options: opens the tensor runtime of this thread, reads the model, and takes the runner that the backend allows.
import { totalmem } from "node:os"
import { type ModelConfig, parameterCount, parameterLayout, readModelConfig } from "@cohort/model"
import { openRuntime, type OpenOptions } from "@cohort/tensor"
import type { ModelRunner } from "../runner.ts"
import { createCompiledRunner } from "./create-runner.ts"
import { createFallbackRunner } from "./fallback.ts"

export interface OpenRunnerOptions {
  readonly runtime: OpenOptions
  /** A Hugging Face model folder. */
  readonly folder: string
  /** Sequences that are computed at once. */
  readonly slots: number
  /** `auto` takes bf16 for models that are bound by reading their weights. */
  readonly dtype: "f32" | "bf16" | "auto"
  /** Most tokens of a sequence; absent: the model's limit, or what fits a quarter of the machine's memory. */
  readonly maxModelLength?: number
  /** File that remembers which form of decoding is fastest on this machine. */
  readonly formMemory?: string
}

/** From this many parameters on, decoding is bound by reading weights, and half the bytes is nearly twice the speed. */
const largeModel = 50_000_000

/**
 * @throws CohortError `runtime_unavailable`, `model_invalid`, `config_invalid`
 */
export async function openRunner(options: OpenRunnerOptions): Promise<ModelRunner> {
  const config = readModelConfig(options.folder)
  const dtype = options.dtype === "auto" ? (parameterCount(parameterLayout(config)) < largeModel ? "f32" : "bf16") : options.dtype
  const maxModelLength = Math.min(config.maxPosition, options.maxModelLength ?? lengthThatFits(config, options.slots, dtype, totalmem() / 4))
  const runtime = await openRuntime(options.runtime)
  const settings = { runtime, model: { folder: options.folder }, slots: options.slots, maxModelLength, dtype }
  const runner = runtime.raw === undefined ? createFallbackRunner(settings) : await createCompiledRunner(settings)
  return {
    ...runner,
    async close() {
      await runner.close()
      runtime.close()
    },
  }
}

/** Longest context whose cache for all slots stays within `bytes`, at least 256 tokens. */
export function lengthThatFits(config: ModelConfig, slots: number, dtype: "f32" | "bf16", bytes: number): number {
  const perToken = 2 * config.layers * config.kvHeads * config.headDim * (dtype === "bf16" ? 2 : 4) * slots
  return Math.max(256, Math.floor(bytes / perToken / 64) * 64)
}
