// The embedded backend inside its thread: one tensor runtime, the policy, and the training step.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { MicroBatch } from "@cohort/batching"
import { CohortError } from "@cohort/errors"
import { moveReference, type ObjectiveMetrics, type ObjectiveSpec } from "@cohort/loss"
import { type AdamWSettings, type CheckpointFileOptions, checkpointTensors, createAdapter, createPolicy, initialValues, loadOptimizerState, loraLayout, type LoraSettings, mergedTensors, mergeInto, openAdapter, openFolderValues, type Parameters, peftConfig, type Policy, readModelConfig, saveAdapter, saveModelFolder, saveOptimizerState, type TensorBytes, type Weights, writeCheckpointFile } from "@cohort/model"
import type { TensorRuntime } from "@cohort/tensor"
import type { OptimizerStep } from "../backend.ts"
import { chooseForm, type FormChoice, formKey } from "./form.ts"
import { createTrainStep, type TrainStep } from "./train-step.ts"

/** Within a checkpoint: a model folder with the moving reference, and the adapter in PEFT's layout. */
const referenceFolder = "reference"
const adapterFolder = "adapter"

export interface EmbeddedSettings {
  readonly modelFolder: string
  readonly adamW: AdamWSettings
  readonly compile: "auto" | "xla" | "graph" | "eager"
  readonly precision: "f32" | "mixed" | "auto"
  readonly entropy: boolean
  /** The reference follows the policy, so that checkpoints hold it. */
  readonly movingReference?: boolean
  /** Only an adapter is trained, beside frozen weights; the reference that stays is then the model without it. */
  readonly lora?: LoraSettings & { readonly seed: number }
  /** File that remembers measured forms. */
  readonly formMemory?: string
  /** Names the machine and library in that file. */
  readonly machine: string
}

export interface EmbeddedAdapter {
  readonly names: readonly string[]
  /** `adapter_config.json`. */
  readonly config: Readonly<Record<string, unknown>>
  tensors(): Iterable<TensorBytes>
}

export interface EmbeddedBackend {
  readonly policy: Policy
  /** What the optimizer moves: the policy's own parameters, or those of its adapter. */
  readonly trained: Parameters
  /** What an engine in this thread computes on: the policy, or a copy with the adapter merged in that follows it. */
  servedPolicy(): Policy
  readonly names: readonly string[]
  forwardBackward(batch: MicroBatch, spec: ObjectiveSpec): ObjectiveMetrics
  optimStep(step: OptimizerStep): { gradNorm: number; skipped: boolean }
  logProbs(batch: MicroBatch, which: "policy" | "reference", temperature: number): Float32Array[]
  entropies(batch: MicroBatch, temperature: number): Float32Array[]
  moveReference(mix: number): void
  /** What `weights` of the trainer's backend gives. */
  tensors(matrices?: "f32" | "bf16"): Iterable<TensorBytes>
  /** Writes those tensors into a new file; undefined where they are not resident as they are. */
  readonly writeFile: ((path: string, options: CheckpointFileOptions) => ReturnType<typeof writeCheckpointFile>) | undefined
  /** The adapter in PEFT's layout, where one is trained. */
  readonly adapter: EmbeddedAdapter | undefined
  save(dir: string): Promise<void>
  load(dir: string): Promise<void>
  /** How the step runs, once a batch was seen. */
  form(): FormChoice | undefined
  counters(): { readonly tensors: number; readonly bytes: number; readonly rss: number }
  close(): void
}

/** Files of a model folder that belong beside the weights. */
export function companionNames(folder: string): string[] {
  return readdirSync(folder).filter((name) => /\.(json|jinja|model|txt)$/.test(name) && !name.endsWith(".index.json") && name !== "config.json")
}

export function createEmbeddedBackend(runtime: TensorRuntime, settings: EmbeddedSettings): EmbeddedBackend {
  const config = readModelConfig(settings.modelFolder)
  const opened = openFolderValues(settings.modelFolder, config)
  const policy = createPolicy(runtime, config, opened.values)
  opened.close()
  const { lora } = settings
  const adapter = lora === undefined ? undefined : createAdapter(runtime, config, lora, initialValues(loraLayout(config, lora), lora.seed))
  const trained = adapter ?? policy
  const weights = (): Weights => (adapter === undefined ? policy.weights() : { ...policy.weights(), ...adapter.weights() })
  const step: TrainStep = createTrainStep(runtime, { config: lora === undefined ? config : { ...config, lora }, trained, weights }, { adamW: settings.adamW, entropy: settings.entropy })
  let chosen: FormChoice | undefined
  let reference: Policy | undefined
  let merged: Policy | undefined

  function formFor(batch: MicroBatch, spec: ObjectiveSpec): FormChoice {
    // Only the first batch is measured: its gradients are overwritten by the real call that follows.
    chosen ??= chooseForm({
      compile: runtime.info.backend === "tensorflow" ? settings.compile : "eager",
      precision: runtime.info.backend === "tensorflow" ? settings.precision : "f32",
      key: formKey({ machine: settings.machine, config, lanes: runtime.info.lanes, lora }, batch),
      ...(settings.formMemory === undefined ? {} : { memory: settings.formMemory }),
      run: (form) => {
        step.forwardBackward(batch, spec, form)
        step.discard()
      },
      now: () => performance.now(),
    })
    return chosen
  }

  /** The reference policy, made from the starting weights where it is first needed. */
  function referencePolicy(): Policy {
    if (reference === undefined) {
      const start = openFolderValues(settings.modelFolder, config)
      reference = createPolicy(runtime, config, start.values)
      start.close()
    }
    return reference
  }

  function score(what: "logProbs" | "entropies", batch: MicroBatch, which: "policy" | "reference", temperature: number): Float32Array[] {
    const of = which === "policy" ? weights : adapter !== undefined ? policy.weights : referencePolicy().weights
    const flat = step.score(what, which, batch, temperature, of, chosen?.form ?? { mode: runtime.info.backend === "tensorflow" ? "graph" : "eager", precision: "f32" })
    return Array.from({ length: batch.rows }, (_, row) => flat.slice(row * batch.length, (row + 1) * batch.length))
  }

  function loadAdapter(folder: string, into: Parameters): void {
    if (!existsSync(folder)) throw new CohortError("checkpoint_invalid", `${folder} is missing, with model.lora`, { hint: "The run trained all weights: resume it without model.lora." })
    const opened = openAdapter(folder, config)
    try {
      into.load(opened.values)
    } finally {
      opened.close()
    }
  }

  const tensors = (matrices: "f32" | "bf16" = "f32"): Iterable<TensorBytes> => (adapter === undefined ? checkpointTensors(policy, { matrices }) : mergedTensors(policy, adapter, lora!, matrices))

  function loadFrom(folder: string, into: Policy): void {
    const opened = openFolderValues(folder, config)
    try {
      into.load(opened.values)
    } finally {
      opened.close()
    }
  }

  return {
    policy,
    trained,
    servedPolicy() {
      if (adapter === undefined) return policy
      merged ??= createPolicy(runtime, config, policy.read)
      mergeInto(merged, policy, adapter, lora!)
      return merged
    },
    names: policy.specs.flatMap((spec) => spec.parts.map((part) => part.checkpointName)),
    forwardBackward: (batch, spec) => step.forwardBackward(batch, spec, formFor(batch, spec).form),
    optimStep(options) {
      const result = step.optimStep(options)
      if (merged !== undefined && adapter !== undefined && !result.skipped) mergeInto(merged, policy, adapter, lora!)
      return result
    },
    logProbs: (batch, which, temperature) => score("logProbs", batch, which, temperature),
    entropies: (batch, temperature) => score("entropies", batch, "policy", temperature),
    moveReference(mix) {
      for (const [i, variable] of referencePolicy().variables.entries()) {
        const values = variable.data() as Float32Array
        moveReference(values, policy.variables[i]!.data() as Float32Array, mix)
        variable.load(values)
      }
    },
    tensors,
    writeFile: adapter === undefined ? (path, options) => writeCheckpointFile(path, policy, options) : undefined,
    adapter: adapter === undefined ? undefined : {
      names: adapter.specs.flatMap((spec) => spec.parts.map((part) => part.checkpointName)),
      config: peftConfig(lora!, settings.modelFolder),
      tensors: () => checkpointTensors(adapter),
    },
    async save(dir) {
      mkdirSync(dir, { recursive: true })
      for (const name of companionNames(settings.modelFolder)) copyFileSync(join(settings.modelFolder, name), join(dir, name))
      await saveModelFolder(dir, policy, tensors())
      if (adapter !== undefined) {
        mkdirSync(join(dir, adapterFolder), { recursive: true })
        await saveAdapter(join(dir, adapterFolder), adapter, lora!, settings.modelFolder)
      }
      await saveOptimizerState(join(dir, "optimizer.safetensors"), { specs: trained.specs, ...step.moments, step: step.stepsTaken })
      if (settings.movingReference !== true) return
      mkdirSync(join(dir, referenceFolder), { recursive: true })
      await saveModelFolder(join(dir, referenceFolder), referencePolicy())
    },
    async load(dir) {
      const path = join(dir, "optimizer.safetensors")
      if (!existsSync(path)) throw new CohortError("checkpoint_invalid", `${dir}: optimizer.safetensors is missing`, { hint: "Resume from a checkpoint that Cohort wrote." })
      const referenceDir = join(dir, referenceFolder)
      if (settings.movingReference === true && !existsSync(referenceDir))
        throw new CohortError("checkpoint_invalid", `${dir}: ${referenceFolder}/ is missing, with objective.reference = "moving"`, { hint: 'The run had no moving reference: resume it with objective.reference = "start".' })
      if (adapter === undefined) loadFrom(dir, policy)
      else loadAdapter(join(dir, adapterFolder), adapter)
      if (settings.movingReference === true) loadFrom(referenceDir, referencePolicy())
      step.stepsTaken = loadOptimizerState(path, { specs: trained.specs, ...step.moments })
    },
    form: () => chosen,
    counters: () => ({ ...runtime.counters(), rss: process.memoryUsage().rss }),
    close() {
      step.dispose()
      adapter?.dispose()
      policy.dispose()
      reference?.dispose()
      merged?.dispose()
      runtime.close()
    },
  }
}

/** Text files of a model folder by name, for the folder that servers load. */
export function companionFiles(folder: string): Record<string, string> {
  return Object.fromEntries(["config.json", ...companionNames(folder)].map((name) => [name, readFileSync(join(folder, name), "utf8")]))
}
