// How the trainer uses the cores: one step on all of them, or lanes that each compute a part of it on a core or two of their own.
import type { RunConfig } from "@cohort/config"
import { loraLayout, parameterCount, parameterLayout, readModelConfig } from "@cohort/model"
import { plannerOptions, rowsThatFit } from "../batching.ts"
import { stepCost } from "./step-cost.ts"

export interface CoresOptions {
  readonly cores: number
  /** Of the whole model, trained or not. */
  readonly parameters: number
  /** Those that get gradients: each lane holds its own until they are added up. */
  readonly trainedParameters: number
  /** Rows that every micro-batch has room for. */
  readonly rows: number
  readonly memoryBytes: number
}

/** Below, a step is one XLA program, on all the cores that the engine leaves: lanes would spend their time on calls. */
const tinyModel = 500_000
const mostLanes = 4
/** Of the machine's memory, for the gradients of all lanes but the first. */
const memoryShare = 1 / 8

/**
 * Threads of one op, and lanes. Lanes do not wait for each other between ops, most of which are too small for several threads: two lanes are twice as
 * fast as one core, which two threads are not. A lane without a row is an idle core, so there are no more lanes than rows.
 *
 * @example
 * trainerCores({ cores: 8, parameters: 29e6, trainedParameters: 29e6, rows: 16, memoryBytes: 16e9 }) // { threads: 2, lanes: 4 }
 */
export function trainerCores({ cores, parameters, trainedParameters, rows, memoryBytes }: CoresOptions): { readonly threads: number; readonly lanes: number } {
  const affordable = 1 + Math.floor((memoryBytes * memoryShare) / (4 * trainedParameters))
  const lanes = parameters < tinyModel ? 1 : Math.max(1, Math.min(cores, mostLanes, rows, affordable))
  return { threads: Math.max(1, Math.floor(cores / lanes)), lanes }
}

export interface RunFacts {
  readonly modelFolder: string
  /** Of the machine; `backend.threads` goes before them. */
  readonly cores: number
  readonly memoryBytes: number
  /** As for the planner: samples may be as long as the model allows. */
  readonly multiTurn: boolean
}

/**
 * What the trainer of a run opens its runtime with. A colocated engine computes in the same runtime, and wants all threads for an op; so do ops that
 * are not compiled, which come one by one.
 *
 * @throws CohortError `model_invalid`, and as `plannerOptions`
 */
export function coresOfRun(config: RunConfig, { modelFolder, memoryBytes, multiTurn, ...facts }: RunFacts): ReturnType<typeof trainerCores> {
  const cores = config.backend.threads === "auto" ? facts.cores : config.backend.threads
  if (config.inference.colocated || config.backend.compile === "eager") return { threads: cores, lanes: 1 }
  const model = readModelConfig(modelFolder)
  const { lora } = config.model
  const parameters = parameterCount(parameterLayout(model))
  // Servers are not asked yet; they allow what the model does, or the planner takes smaller shapes.
  const limits = plannerOptions(config, { backend: { packing: stepCost(model, parameters) }, maxModelLength: model.maxPosition, multiTurn })
  return trainerCores({ cores, parameters, trainedParameters: lora === undefined ? parameters : parameterCount(loraLayout(model, lora)), rows: rowsThatFit(limits), memoryBytes })
}

/**
 * Threads of an engine beside the trainer: half the cores. A decoder on all of them takes more processor time for the same tokens, since each lane reads
 * all weights, and that time is the trainer's.
 */
export function engineThreads(cores: number): number {
  return Math.ceil(cores / 2)
}
