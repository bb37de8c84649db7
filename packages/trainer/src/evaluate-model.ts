// Evaluates a model outside of a run: the held-out prompts of a config, by its servers, episodes and rewards.
import { CohortError } from "@cohort/errors"
import { evaluate } from "./evaluate.ts"
import { measuredConcurrency, type ServeOptions, withServedModel } from "./measure.ts"
import { fetchModel } from "./model-folder.ts"
import { latestCheckpoint, runFolder } from "./run-folder.ts"
import type { EvalReport } from "./run.ts"
import { samplingOf } from "./tasks.ts"

export interface EvaluateModelOptions extends ServeOptions {
  /** Folder of the model in Hugging Face layout, or its name on the hub. */
  readonly model: string
}

/**
 * Scores a model on the evaluation prompts of a config (`eval.*`, `data.evalSource` or the held-out part of the source).
 *
 * @throws CohortError `config_invalid` when the config has no evaluation prompts, and what opening a run throws
 * @example
 * const { accuracy } = await evaluateModel({ config, registry, projectDir, env: process.env, signal, onUpdate, model: "models/arithmetic-1m" })
 */
export async function evaluateModel(options: EvaluateModelOptions): Promise<EvalReport> {
  const { config, signal, onUpdate } = options
  const { folder } = await fetchModel(options.model, options)
  return withServedModel(options, folder, ({ tasks, rewards, services }) => {
    const source = tasks.heldOut
    if (source === undefined)
      throw new CohortError("config_invalid", `data.evalSource is not set, and ${config.data.source} holds nothing out`, { hint: "Name a file of evaluation prompts in data.evalSource." })
    onUpdate({ kind: "phase", phase: "eval", message: `evaluating on ${Math.min(config.eval.prompts, source.size)} held-out prompts` })
    return evaluate({
      ...services,
      source, prompts: config.eval.prompts, samples: config.eval.samples,
      sampling: { ...samplingOf(config), temperature: config.eval.temperature },
      seed: config.seed, rewards: rewards.entries, fullMarks: rewards.fullMarks, step: 0, retryDelayMs: 500, signal,
      concurrency: measuredConcurrency(config),
      environmentOf: tasks.environmentOf,
    })
  })
}

/** Folder of the newest complete checkpoint of a run. @throws CohortError `checkpoint_invalid` when there is none */
export function latestCheckpointDir(runDir: string): string {
  return latestCheckpoint(runFolder(runDir)).dir
}
