// `cohort config`: settings shown, described, checked.
import { formatConfig, fromTrl, runConfigJsonSchema } from "@cohort/config"
import { wholeNumber } from "../arguments.ts"
import { checkRunParts } from "../check-parts.ts"
import { type CommandGroup, defineCommand } from "../command.ts"
import { exitCodes } from "../failure.ts"
import { loadConfigFile, projectDirOf, tellWarnings } from "../run-config.ts"
import { readNamedFile } from "../read-file.ts"
import { usageError } from "../usage-error.ts"

const file = { type: "positional", required: true, description: "Config file: .toml, .yaml, .json, or .ts with a default export" } as const

const show = defineCommand({
  summary: "Print every setting of a config with where it came from",
  details: "The output is TOML that loads again.",
  takesSettings: true,
  args: { file, json: { type: "boolean", description: "Print settings and origins as one JSON line" } },
  examples: [["config show run.toml --train.steps 20", "what a run with this flag would use"]],
  async run(args, { shell, settings }) {
    const loaded = await loadConfigFile({ shell, file: args.file, settings })
    const { config, origins, warnings } = loaded
    shell.stdout.write(args.json ? `${JSON.stringify({ config, origins, warnings })}\n` : formatConfig(config, origins))
    tellWarnings(loaded, shell)
    return exitCodes.ok
  },
})

const schema = defineCommand({
  summary: "Print the JSON Schema of config files, for editors",
  args: {},
  examples: [["config schema > cohort.schema.json", "a file that editors complete from"]],
  run(_, { shell }) {
    shell.stdout.write(`${JSON.stringify(runConfigJsonSchema(), undefined, 2)}\n`)
    return exitCodes.ok
  },
})

const check = defineCommand({
  summary: "Check a config, and that the model, plugins and options it names are there",
  details: "All problems are listed at once. Nothing is started.",
  takesSettings: true,
  args: { file },
  examples: [["config check run.toml", "exit code 0 when a run could start, 2 when not"]],
  async run(args, { shell, settings }) {
    const loaded = await loadConfigFile({ shell, file: args.file, settings })
    tellWarnings(loaded, shell)
    await checkRunParts(loaded.config, projectDirOf(args.file, shell.cwd), shell.env)
    shell.stdout.write(`${args.file}: no problems\n`)
    return exitCodes.ok
  },
})

const trl = defineCommand({
  summary: "Turn options of TRL's AsyncGRPOConfig or GRPOConfig into a config",
  details: "Options that the file leaves out count with TRL's defaults. What cannot be taken over is listed in the new file, with the reason.",
  args: {
    file: { type: "positional", required: true, description: "The options as YAML or JSON" },
    trainer: { type: "string", valueHint: "async|grpo", description: "Whose options they are (default: found out from the options)" },
    processes: { type: "string", valueHint: "n", default: "1", description: "Trainer processes of the old run, which multiply its batch" },
    json: { type: "boolean", description: "Print what was mapped and what was not as one JSON line" },
  },
  examples: [["config from-trl args.yaml > run.toml", "a config to complete: its model, data and rewards are yours to name"]],
  async run({ file: name, trainer, processes, json }, { shell }) {
    if (trainer !== undefined && trainer !== "async" && trainer !== "grpo") throw usageError(`--trainer is ${JSON.stringify(trainer)}, expected async or grpo`, "Write for example --trainer grpo.")
    const text = await readNamedFile(name, shell.cwd)
    const result = fromTrl(text, { name, processes: wholeNumber("--processes", processes, 1), ...(trainer === undefined ? {} : { trainer }) })
    shell.stdout.write(json ? `${JSON.stringify(result)}\n` : result.toml)
    return exitCodes.ok
  },
})

export const config: CommandGroup = {
  summary: "Show, describe and check the settings of a run",
  commands: { show: async () => show, schema: async () => schema, check: async () => check, "from-trl": async () => trl },
}
