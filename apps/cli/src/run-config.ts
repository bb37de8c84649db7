// The config of a run as commands get it: a file or a stored run, the environment, the flags.
import { existsSync, readdirSync, statSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { type LoadedConfig, loadConfig } from "@cohort/config"
import { CohortError, messageOf, toCohortError } from "@cohort/errors"
import type { Shell } from "./shell.ts"

export interface ConfigRequest {
  readonly shell: Shell
  /** As typed; relative to the working folder. */
  readonly file: string
  readonly settings: readonly string[]
}

/** Loads a config file; the messages name it as it was typed. */
export function loadConfigFile({ shell, file, settings }: ConfigRequest): Promise<LoadedConfig> {
  return loadConfig({
    file,
    env: shell.env,
    flags: settings,
    readText: (path) => Bun.file(resolve(shell.cwd, path)).text(),
    importModule: (path) => import(resolve(shell.cwd, path)),
  })
}

/** Says on stderr which settings seldom do what was wanted. */
export function tellWarnings({ warnings }: LoadedConfig, shell: Shell): void {
  for (const { path, message } of warnings) shell.stderr.write(`warning: ${path}: ${message}\n`)
}

/** The file in a run's folder that remembers where its relative paths start. */
const launchFile = "launch.json"

export interface Launch {
  readonly projectDir: string
}

/** Writes down what `--resume` needs to start the same run again. */
export async function writeLaunch(runDir: string, launch: Launch): Promise<void> {
  await Bun.write(join(runDir, launchFile), `${JSON.stringify(launch, undefined, 2)}\n`)
}

/** Folder where the relative paths of a stored run start; the working folder where the run does not say. */
export async function storedProjectDir(runDir: string, cwd: string): Promise<string> {
  const file = Bun.file(join(runDir, launchFile))
  if (!(await file.exists())) return cwd
  try {
    const launch: unknown = await file.json()
    if (typeof launch === "object" && launch !== null && "projectDir" in launch && typeof launch.projectDir === "string") return launch.projectDir
    throw new Error("it has no projectDir")
  } catch (cause) {
    throw new CohortError("file_invalid", `${join(runDir, launchFile)} cannot be used: ${messageOf(cause)}`, { cause, hint: "Give the config file of the run before --resume." })
  }
}

/** The config that a run was started with, under new flags. */
export async function loadStoredConfig(shell: Shell, runDir: string, settings: readonly string[]): Promise<LoadedConfig> {
  const file = join(runDir, "config.json")
  if (!existsSync(file))
    throw new CohortError("checkpoint_invalid", `${runDir} is not the folder of a run: it has no config.json`, { hint: "Give the folder that the run printed, such as runs/run-2026-01-31-12-00-00." })
  return loadConfigFile({ shell, file, settings })
}

/**
 * The newest folder of a run of this name that holds a checkpoint.
 *
 * @param parent folder that holds the folders of runs
 * @throws CohortError `checkpoint_invalid` where there is none
 */
export function latestRunDir(parent: string, name: string): string {
  const runs = namesIn(parent)
    // The date that follows the name tells runs of "a" from runs of "a-b".
    .filter((entry) => entry.startsWith(`${name}-`) && /^\d{4}-\d{2}-\d{2}-/.test(entry.slice(name.length + 1)))
    .filter((entry) => namesIn(join(parent, entry, "checkpoints")).some((checkpoint) => /^step-\d+$/.test(checkpoint)))
    .map((entry) => ({ dir: join(parent, entry), atMs: statSync(join(parent, entry)).mtimeMs }))
    .toSorted((a, b) => b.atMs - a.atMs)
  if (runs[0] !== undefined) return runs[0].dir
  throw new CohortError("checkpoint_invalid", `no run named "${name}" with a checkpoint in ${parent}`, { hint: "Name the run's folder after --resume, or start anew without it." })
}

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === "ENOENT" || code === "ENOTDIR") return []
    throw toCohortError(error, "file_invalid", dir)
  }
}

/** Folder where the relative paths of a config file start. */
export function projectDirOf(file: string, cwd: string): string {
  return dirname(resolve(cwd, file))
}
