// The model of a config, wherever it is: a folder, or a name on the hub that is fetched once and then used at the same commit.
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { createHubClient, hubSettings } from "@cohort/hub"
import { checkModelPath, type LocatedModel, locateModel, type LocateOptions } from "@cohort/model"
import type { RunOptions } from "./run.ts"
import { writeJson } from "./run-folder.ts"

export type ModelOptions = Pick<RunOptions, "projectDir" | "env" | "signal" | "onUpdate">

/**
 * The folder of a model; what is on the hub is fetched, with its progress as updates.
 *
 * @param commit of an earlier use, where the hub's branch may have moved on since
 * @throws CohortError `model_invalid` when it is nowhere, `disk_full`, `timeout`, `aborted`
 */
export async function fetchModel(path: string, options: ModelOptions, commit?: string): Promise<LocatedModel> {
  const { onUpdate } = options
  return locateModel(path, {
    ...hubOptions(options),
    ...(commit === undefined ? {} : { commit }),
    onProgress: ({ message, bytes, totalBytes }) => onUpdate({ kind: "progress", message, done: bytes, total: totalBytes }),
  })
}

/** Looks whether a model is there, on the hub too, without fetching it. @throws CohortError `model_invalid` */
export function checkModel(path: string, options: Omit<ModelOptions, "onUpdate">): Promise<void> {
  return checkModelPath(path, hubOptions(options))
}

/** The model of a run: a resumed one takes the commit that it began with. */
export async function fetchRunModel(path: string, options: ModelOptions, runDir: string): Promise<string> {
  const stored = join(runDir, "model.json")
  const commit = existsSync(stored) ? (JSON.parse(readFileSync(stored, "utf8")) as LocatedModel).commit : undefined
  const located = await fetchModel(path, options, commit)
  if (located.commit !== undefined && commit === undefined) writeJson(stored, { path, commit: located.commit })
  return located.folder
}

function hubOptions({ projectDir, env, signal }: Omit<ModelOptions, "onUpdate">): LocateOptions {
  return { baseDir: projectDir, hub: createHubClient(hubSettings(env)), signal }
}
