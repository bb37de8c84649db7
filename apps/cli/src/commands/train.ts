// `cohort train`: the run that a config file describes, or one that goes on from its last checkpoint.
import { resolve } from "node:path"
import type { LoadedConfig } from "@cohort/config"
import { defineCommand, type Invocation } from "../command.ts"
import { latestRunDir, loadConfigFile, loadStoredConfig, projectDirOf, storedProjectDir, tellWarnings } from "../run-config.ts"
import { runSession } from "../run-session.ts"
import { usageError } from "../usage-error.ts"

const configExtension = /\.(toml|ya?ml|jsonc?|json5|ts)$/i

interface Plan {
  readonly loaded: LoadedConfig
  readonly projectDir: string
  readonly resume?: string
}

export const train = defineCommand({
  summary: "Train with the settings of a config file, or go on with a run",
  details:
    "Settings come from flags, the environment (COHORT__TRAIN__STEPS=20), the file, and defaults, in this order. Relative paths in the file start at its folder.\n" +
    "With --resume alone the newest run of the file's name goes on; with --resume and a folder that run does, with the settings it was started with unless a file is given too.\n" +
    "Ctrl-C ends the run after the step in progress, with a checkpoint and a summary; a second Ctrl-C ends it at once.",
  takesSettings: true,
  optionalValues: { resume: (next) => !configExtension.test(next) },
  args: {
    config: { type: "positional", required: false, description: "Config file: .toml, .yaml, .json, or .ts with a default export" },
    json: { type: "boolean", description: "Print one JSON line on stdout at the end, everything else on stderr" },
    resume: { type: "string", valueHint: "folder", description: "Go on from the last checkpoint of this run, or of the newest one" },
  },
  examples: [
    ["train examples/quickstart.toml", "a run in a new folder"],
    ["train run.toml --train.learningRate 1e-5 --no-data.shuffle", "with other settings"],
    ["train --resume runs/run-2026-01-31-12-00-00 --train.steps 200", "a run that goes on, for longer"],
  ],
  async run(args, invocation) {
    const { shell } = invocation
    const plan = await planOf(args.config, args.resume, invocation)
    tellWarnings(plan.loaded, shell)
    return runSession({ shell, json: args.json ?? false, ...plan })
  },
})

/** @param resume folder of a run, "" for the newest one */
async function planOf(file: string | undefined, resume: string | undefined, { shell, settings }: Invocation): Promise<Plan> {
  const dir = resume === undefined || resume === "" ? undefined : resolve(shell.cwd, resume)
  if (file === undefined) {
    if (dir === undefined) throw usageError("no config file is given", "Write: cohort train run.toml, or cohort train --resume FOLDER")
    return { loaded: await loadStoredConfig(shell, dir, settings), projectDir: await storedProjectDir(dir, shell.cwd), resume: dir }
  }
  const loaded = await loadConfigFile({ shell, file, settings })
  const projectDir = projectDirOf(file, shell.cwd)
  if (resume === undefined) return { loaded, projectDir }
  const { runDir, name } = loaded.config
  return { loaded, projectDir, resume: dir ?? latestRunDir(resolve(projectDir, runDir), name) }
}
