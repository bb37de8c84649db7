// The folder of a run: what is where, made so that it is readable whenever the run ends.
//   config.json  origins.json  events.db  metrics.jsonl  engine.log  summary.json  checkpoints/step-000050/  checkpoints/latest
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { CohortError, toCohortError } from "@cohort/errors"
import type { EntropyControl } from "@cohort/loss"

export interface RunFolder {
  readonly id: string
  readonly dir: string
  readonly ledgerPath: string
  readonly metricsPath: string
  readonly engineLogPath: string
  readonly checkpointsDir: string
}

/** Paths of an existing or coming run. */
export function runFolder(dir: string): RunFolder {
  return {
    id: basename(dir),
    dir,
    ledgerPath: join(dir, "events.db"),
    metricsPath: join(dir, "metrics.jsonl"),
    engineLogPath: join(dir, "engine.log"),
    checkpointsDir: join(dir, "checkpoints"),
  }
}

/**
 * Makes a new folder `<parent>/<name>-<date>`; a number is added when it is taken.
 * @throws CohortError `disk_full` and others that name the folder
 */
export function createRunFolder(parent: string, name: string, date: Date): RunFolder {
  const stamp = date.toISOString().slice(0, 19).replaceAll(/[:T]/g, "-")
  try {
    mkdirSync(parent, { recursive: true })
    for (let number = 1; ; number++) {
      const dir = join(parent, number === 1 ? `${name}-${stamp}` : `${name}-${stamp}-${number}`)
      if (!makeDir(dir)) continue
      mkdirSync(join(dir, "checkpoints"))
      return runFolder(dir)
    }
  } catch (error) {
    throw toCohortError(error, "internal", `the run folder in ${parent} could not be made`)
  }
}

/** False when the folder is there already, also when another process was faster. */
function makeDir(dir: string): boolean {
  try {
    mkdirSync(dir)
    return true
  } catch (error) {
    if ((error as { code?: string }).code === "EEXIST") return false
    throw error
  }
}

/** Writes JSON so that readers see the old file or the whole new one. */
export function writeJson(path: string, value: unknown): void {
  const partial = `${path}.${process.pid}.tmp`
  try {
    writeFileSync(partial, `${JSON.stringify(value, null, 2)}\n`)
    renameSync(partial, path)
  } catch (error) {
    rmSync(partial, { force: true })
    throw toCohortError(error, "internal", `${path} could not be written`)
  }
}

/** What a checkpoint knows beside weights and moments. */
export interface CheckpointState {
  readonly format: 1
  /** Optimizer steps taken; also the policy version. */
  readonly step: number
  readonly cursor: unknown
  readonly samplesTrained: number
  readonly trainedTokens: number
  readonly trainSeconds: number
  readonly entropy: EntropyControl
}

const stepDir = /^step-(\d{6,})$/

export function checkpointDir(folder: RunFolder, step: number): string {
  return join(folder.checkpointsDir, `step-${String(step).padStart(6, "0")}`)
}

/** Complete checkpoints, oldest first. A folder without state.json was cut off while being written. */
export function listCheckpoints(folder: RunFolder): { readonly step: number; readonly dir: string }[] {
  if (!existsSync(folder.checkpointsDir)) return []
  return readdirSync(folder.checkpointsDir)
    .flatMap((name) => {
      const match = stepDir.exec(name)
      return match !== null && existsSync(join(folder.checkpointsDir, name, "state.json")) ? [{ step: Number(match[1]), dir: join(folder.checkpointsDir, name) }] : []
    })
    .toSorted((a, b) => a.step - b.step)
}

/**
 * The newest complete checkpoint with its state.
 * @throws CohortError `checkpoint_invalid` when there is none, or its state does not parse
 */
export function latestCheckpoint(folder: RunFolder): { readonly dir: string; readonly state: CheckpointState } {
  const latest = listCheckpoints(folder).at(-1)
  if (latest === undefined)
    throw new CohortError("checkpoint_invalid", `${folder.dir} has no complete checkpoint`, { hint: "Give the folder of a run that wrote one, or start anew without --resume." })
  const path = join(latest.dir, "state.json")
  try {
    const state = JSON.parse(readFileSync(path, "utf8")) as CheckpointState
    if (state.format !== 1) throw new Error(`format ${String(state.format)} is not known`)
    return { dir: latest.dir, state }
  } catch (cause) {
    throw new CohortError("checkpoint_invalid", `${path}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause, hint: "Remove this checkpoint folder to go on from the one before." })
  }
}

/**
 * Writes a checkpoint: `save` fills a temporary folder, the state file is last, one rename makes it visible. Older ones beyond `keep` go.
 * @throws CohortError `disk_full` and others; older checkpoints stay as they were
 */
export async function writeCheckpoint(folder: RunFolder, state: CheckpointState, keep: number, save: (dir: string) => Promise<void>): Promise<string> {
  const dir = checkpointDir(folder, state.step)
  const partial = `${dir}.${process.pid}.tmp`
  try {
    // Also what a run that was killed left half-written: a run folder has one writer.
    for (const name of existsSync(folder.checkpointsDir) ? readdirSync(folder.checkpointsDir) : []) if (name.endsWith(".tmp")) rmSync(join(folder.checkpointsDir, name), { recursive: true, force: true })
    mkdirSync(partial, { recursive: true })
    await save(partial)
    writeJson(join(partial, "state.json"), state)
    rmSync(dir, { recursive: true, force: true })
    renameSync(partial, dir)
  } catch (error) {
    rmSync(partial, { recursive: true, force: true })
    throw toCohortError(error, "internal", `the checkpoint of step ${state.step} could not be written to ${dir}`)
  }
  for (const old of listCheckpoints(folder).slice(0, -keep)) rmSync(old.dir, { recursive: true, force: true })
  return dir
}
