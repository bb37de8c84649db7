// One run from the command line: live news, two-stage interruption, the summary at the end.
import { relative, resolve } from "node:path"
import type { LoadedConfig } from "@cohort/config"
import { toCohortError } from "@cohort/errors"
import type { RunOptions, Run } from "@cohort/trainer"
import { exitCodeOf, exitCodes } from "./failure.ts"
import { cliRegistry } from "./registry.ts"
import { writeLaunch } from "./run-config.ts"
import { programName, type Shell, wantsColor } from "./shell.ts"
import { watchInterrupts } from "./signals.ts"
import { createStatusLine } from "./status-line.ts"
import { painter } from "./style.ts"
import { summaryJson } from "./summary-json.ts"
import { summaryText } from "./summary-text.ts"

export interface SessionOptions {
  readonly shell: Shell
  readonly loaded: LoadedConfig
  readonly projectDir: string
  /** Folder of the run to go on with. */
  readonly resume?: string
  /** One JSON line on stdout, all else on stderr. */
  readonly json: boolean
  readonly createRun?: (options: RunOptions) => Promise<Run>
}

/**
 * Runs to the end and returns the exit code: 0, or 130 after an interruption that ended well.
 *
 * @throws CohortError when the run failed
 */
export async function runSession({ shell, loaded, projectDir, resume, json, createRun }: SessionOptions): Promise<number> {
  const output = json ? shell.stderr : shell.stdout
  const paint = painter(wantsColor(output, shell.env))
  const status = createStatusLine({ output, now: shell.now, paint })
  const show = (path: string): string => shownPath(path, shell.cwd)
  using interrupts = watchInterrupts(shell, {
    onFirst: () => status.print(paint("yellow", "Stopping after this step, with a checkpoint. Ctrl-C again ends at once.")),
    onSecond: () => status.close(),
  })
  try {
    const start = createRun ?? (await import("@cohort/trainer")).createRun
    const run = await start({
      config: loaded.config,
      origins: loaded.origins,
      registry: cliRegistry(),
      projectDir,
      env: shell.env,
      onUpdate: (update) => status.update(update),
      signal: interrupts.signal,
      ...(resume === undefined ? {} : { resume }),
    })
    await writeLaunch(run.dir, { projectDir: resolve(projectDir) })
    status.print(`run folder: ${show(run.dir)}`)
    const summary = await run.finished
    status.close()
    if (json) shell.stdout.write(`${JSON.stringify(summaryJson(summary))}\n`)
    else shell.stdout.write(summaryText(summary, { paint, program: programName(shell.env), show }))
    return summary.stopped === "interrupted" ? exitCodes.interrupted : exitCodes.ok
  } catch (error) {
    status.close()
    if (exitCodeOf(error, interrupts.interrupted) !== exitCodes.interrupted) throw error
    // Before the first step there is nothing to sum up.
    output.write(`${toCohortError(error).message}\n`)
    return exitCodes.interrupted
  }
}

/** Relative where that is shorter and inside the working folder. */
export function shownPath(path: string, cwd: string): string {
  const inside = relative(cwd, path)
  return inside === "" || inside.startsWith("..") ? path : inside
}
