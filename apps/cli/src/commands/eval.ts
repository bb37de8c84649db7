// `cohort eval`: the accuracy of a model on held-out prompts, without training.
import { existsSync } from "node:fs"
import { join, resolve } from "node:path"
import { defineCommand } from "../command.ts"
import { exitCodes } from "../failure.ts"
import { duration, percent } from "../numbers.ts"
import { cliRegistry } from "../registry.ts"
import { loadConfigFile, loadStoredConfig, projectDirOf, storedProjectDir, tellWarnings } from "../run-config.ts"
import { wantsColor } from "../shell.ts"
import { watchInterrupts } from "../signals.ts"
import { createStatusLine } from "../status-line.ts"
import { painter } from "../style.ts"

export const evaluation = defineCommand({
  summary: "Measure a model on held-out prompts",
  details: "Takes a config file, whose model is measured, or the folder of a run, whose newest checkpoint is. --model measures another folder with the same settings. Nothing is trained.",
  takesSettings: true,
  args: {
    target: { type: "positional", required: true, description: "Config file, or folder of a run" },
    model: { type: "string", valueHint: "folder", description: "Model to measure: a folder, or its name on the hub" },
    json: { type: "boolean", description: "Print one JSON line on stdout, everything else on stderr" },
  },
  examples: [
    ["eval examples/quickstart.toml", "the starting model"],
    ["eval runs/quickstart-2026-01-31-12-00-00 --eval.temperature 1", "what a run ended with, sampled"],
  ],
  async run(args, { shell, settings }) {
    const folder = resolve(shell.cwd, args.target)
    const isRun = existsSync(join(folder, "config.json")) && existsSync(join(folder, "checkpoints"))
    const loaded = isRun ? await loadStoredConfig(shell, folder, settings) : await loadConfigFile({ shell, file: args.target, settings })
    const projectDir = isRun ? await storedProjectDir(folder, shell.cwd) : projectDirOf(args.target, shell.cwd)
    tellWarnings(loaded, shell)
    const output = args.json === true ? shell.stderr : shell.stdout
    const paint = painter(wantsColor(output, shell.env))
    const status = createStatusLine({ output, now: shell.now, paint })
    using interrupts = watchInterrupts(shell, { onFirst: () => status.print(paint("yellow", "Stopping.")), onSecond: () => status.close() })
    try {
      const { evaluateModel, latestCheckpointDir } = await import("@cohort/trainer")
      const model = args.model === undefined ? (isRun ? latestCheckpointDir(folder) : loaded.config.model.path) : fromWorkingFolder(args.model, shell.cwd)
      const report = await evaluateModel({ config: loaded.config, registry: cliRegistry(), projectDir, env: shell.env, signal: interrupts.signal, onUpdate: (update) => status.update(update), model })
      status.close()
      if (args.json === true) shell.stdout.write(`${JSON.stringify({ model, ...report })}\n`)
      else {
        shell.stdout.write(`accuracy ${percent(report.accuracy)}, reward ${report.rewardMean.toFixed(3)} on ${report.prompts} prompts in ${duration(report.seconds)}\n`)
        for (const { prompt, completion } of report.examples) shell.stdout.write(`  ${prompt}${completion}\n`)
      }
      return exitCodes.ok
    } catch (error) {
      status.close()
      throw error
    }
  },
})

/** A folder as it was typed; what is none of this one's may be a name on the hub. */
function fromWorkingFolder(model: string, cwd: string): string {
  const folder = resolve(cwd, model)
  return existsSync(folder) ? folder : model
}
