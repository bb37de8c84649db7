// `cohort quickstart`: a whole run on one machine in minutes, with nothing to prepare.
import { formatConfig, loadConfig } from "@cohort/config"
import { defineCommand } from "../command.ts"
import { exitCodes } from "../failure.ts"
import { quickstartConfig, quickstartModel } from "../quickstart-config.ts"
import { runSession } from "../run-session.ts"
import { tellWarnings } from "../run-config.ts"

/** Short flags and the settings that they are. */
const shortcuts = [
  ["seed", "seed"],
  ["max-staleness", "staleness.maxSteps"],
  ["seconds", "train.maxSeconds"],
  ["steps", "train.steps"],
] as const

export const quickstart = defineCommand({
  summary: "Teach a tiny model to add, asynchronously, and see its accuracy before and after",
  details:
    "Installs the tensor runtime where it is missing (once), starts the embedded inference engine, measures the accuracy on held-out prompts, trains while rollouts go on, and measures again. " +
    "The settings are those of examples/quickstart.toml; any of them can be changed.",
  takesSettings: true,
  args: {
    json: { type: "boolean", description: "Print one JSON line on stdout at the end, everything else on stderr" },
    steps: { type: "string", valueHint: "n", description: "Optimizer steps (train.steps)" },
    seconds: { type: "string", valueHint: "n", description: "Stop training after this time (train.maxSeconds)" },
    "max-staleness": { type: "string", valueHint: "n", description: "Steps a sample may be behind; 0 is synchronous (staleness.maxSteps)" },
    seed: { type: "string", valueHint: "n", description: "Seed of everything random (seed)" },
    "config-only": { type: "boolean", description: "Print the settings with their origins, and stop" },
  },
  examples: [
    ["quickstart", "the whole run"],
    ["quickstart --max-staleness 0", "the same, synchronous"],
    ["quickstart --steps 5 --json", "a short run whose figures a program reads"],
    ["quickstart --train.learningRate 1e-3", "another learning rate"],
  ],
  async run(args, { shell, settings }) {
    const flags = shortcuts.flatMap(([flag, path]) => (args[flag] === undefined ? [] : [`--${path}`, args[flag]]))
    const loaded = await loadConfig({
      file: "quickstart.ts",
      env: shell.env,
      flags: [...flags, ...settings],
      readText: (path) => Bun.file(path).text(),
      importModule: () => Promise.resolve({ default: quickstartConfig(quickstartModel()) }),
    })
    if (args["config-only"]) {
      shell.stdout.write(formatConfig(loaded.config, loaded.origins))
      return exitCodes.ok
    }
    tellWarnings(loaded, shell)
    return runSession({ shell, loaded, projectDir: shell.cwd, json: args.json ?? false })
  },
})
