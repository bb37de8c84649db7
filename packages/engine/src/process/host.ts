// A served engine from a model folder: runner, tokenizer, engine, HTTP. What `cohort serve` and the engine process share.
import { folderWarnings } from "@cohort/model"
import type { OpenOptions } from "@cohort/tensor"
import { spawnRunner } from "../compiled/spawn.ts"
import { createEngine } from "../create-engine.ts"
import type { Engine } from "../engine.ts"
import { serveEngine } from "../serve.ts"
import { openEngineTokenizer } from "../tokenizer-adapter.ts"

/** Plain data: it crosses a process border. */
export interface HostOptions {
  readonly modelFolder: string
  /** How to open the tensor runtime; `defaultOpenOptions` of @cohort/tensor makes it. */
  readonly runtime: OpenOptions
  readonly modelName: string
  readonly host?: string
  /** 0 takes any free port. */
  readonly port: number
  readonly slots: number
  /** Absent: what the model says. */
  readonly maxModelLength?: number
  readonly dtype: "f32" | "bf16" | "auto"
  /** Policy version of the weights in the folder. */
  readonly version?: number
  readonly apiKey?: string
  /** File that remembers which form of decoding is fastest on this machine. */
  readonly formMemory?: string
}

export interface HostedEngine {
  readonly url: string
  readonly port: number
  /** What it computes in. */
  readonly dtype: "f32" | "bf16"
  readonly engine: Engine
  /** What a user should hear of the model folder. */
  readonly warnings: readonly string[]
  close(): Promise<void>
}

/**
 * Starts runner, engine and server.
 * @throws CohortError `model_invalid`, `tokenizer_invalid`, `runtime_unavailable`, `port_in_use`
 */
export async function hostEngine(options: HostOptions): Promise<HostedEngine> {
  const warnings = folderWarnings(options.modelFolder)
  const runner = await spawnRunner({
    runtime: options.runtime,
    folder: options.modelFolder,
    slots: options.slots,
    dtype: options.dtype,
    ...(options.maxModelLength === undefined ? {} : { maxModelLength: options.maxModelLength }),
    ...(options.formMemory === undefined ? {} : { formMemory: options.formMemory }),
  })
  try {
    const engine = createEngine({
      runner,
      tokenizer: openEngineTokenizer(options.modelFolder, runner.info.vocabSize),
      modelName: options.modelName,
      modelFolder: options.modelFolder,
      now: Date.now,
      random: Math.random,
      ...(options.version === undefined ? {} : { version: options.version }),
    })
    const server = await serveEngine({ engine, port: options.port, ...(options.host === undefined ? {} : { host: options.host }), ...(options.apiKey === undefined ? {} : { apiKey: options.apiKey }) })
    return {
      url: server.url,
      port: server.port,
      dtype: runner.info.dtype,
      engine,
      warnings,
      async close() {
        await server.close()
        await engine.close()
      },
    }
  } catch (error) {
    await runner.close()
    throw error
  }
}
