// `cohort passrate`: whether GRPO would have a signal, measured before a run is paid for.
import { wholeNumber } from "../arguments.ts"
import { defineCommand } from "../command.ts"
import { exitCodes } from "../failure.ts"
import { passRateText } from "../pass-rate-text.ts"
import { cliRegistry } from "../registry.ts"
import { loadConfigFile, projectDirOf, tellWarnings } from "../run-config.ts"
import { wantsColor } from "../shell.ts"
import { watchInterrupts } from "../signals.ts"
import { createStatusLine } from "../status-line.ts"
import { painter } from "../style.ts"

export const passrate = defineCommand({
  summary: "Measure a model's pass rate: will GRPO have a signal?",
  details:
    "Samples completions as training would, scores them, and tells how many groups would teach something at several group sizes. Nothing is trained.\n" +
    "Exit code 0 also when there is no signal; --json has the verdict.",
  takesSettings: true,
  args: {
    config: { type: "positional", required: true, description: "Config file: .toml, .yaml, .json, or .ts with a default export" },
    prompts: { type: "string", valueHint: "n", description: "Prompts to sample (64)" },
    samples: { type: "string", valueHint: "n", description: "Completions of each (16)" },
    json: { type: "boolean", description: "Print one JSON line on stdout, everything else on stderr" },
  },
  examples: [["passrate run.toml --prompts 128", "a closer look"]],
  async run(args, { shell, settings }) {
    const loaded = await loadConfigFile({ shell, file: args.config, settings })
    tellWarnings(loaded, shell)
    const prompts = wholeNumber("prompts", args.prompts ?? "64", 1)
    const samples = wholeNumber("samples", args.samples ?? "16", 2)
    const output = args.json === true ? shell.stderr : shell.stdout
    const paint = painter(wantsColor(output, shell.env))
    const status = createStatusLine({ output, now: shell.now, paint })
    using interrupts = watchInterrupts(shell, { onFirst: () => status.print(paint("yellow", "Stopping.")), onSecond: () => status.close() })
    try {
      const { measurePassRate } = await import("@cohort/trainer")
      const report = await measurePassRate({
        config: loaded.config, registry: cliRegistry(), projectDir: projectDirOf(args.config, shell.cwd), env: shell.env,
        signal: interrupts.signal, onUpdate: (update) => status.update(update), prompts, samples,
      })
      status.close()
      shell.stdout.write(args.json === true ? `${JSON.stringify(report)}\n` : passRateText(report, paint))
      return exitCodes.ok
    } catch (error) {
      status.close()
      throw error
    }
  },
})
