// The page that says where each of TRL's options goes.
import { absent } from "./absent.ts"
import { trainersOf, TRL_VERSION, trlRows } from "./table.ts"

const cell = (text: string): string => text.replaceAll("|", "\\|")
const trainers = (option: string): string => trainersOf(option).map((trainer) => (trainer === "async" ? "Async" : "GRPO")).join(", ") || "other"

/** What TRL's trainers take beside their options. How the parts are written: docs/guides. */
const trainerArguments: readonly (readonly [argument: string, place: string])[] = [
  ["`reward_funcs`", "`rewards`, with a weight, a deadline and retries each; a row column is `rollout.row[\"answer\"]`. A reward that returns None here returns null"],
  ["`train_dataset`, `eval_dataset`", "`data.source`, `data.evalSource`"],
  ["`tools`", "`tools`: [a module that exports them](guides/environments.md#tools), sync or async; their schema is given, not read from a docstring"],
  ["`environment_factory`, a callable", "`environment.use`: [a module whose default export makes one](guides/environments.md#an-environment); public methods become tools with `methodsAsTools`, `get_reward` is `score`"],
  ["`environment_factory`, a mapping", "`environments`, chosen by the same `environment` column"],
  ["`rollout_worker`, `weight_transfer`", "in code: any `RolloutWorker` of `@cohort/rollout`, any `WeightTransfer` of `@cohort/weight-transfer`"],
  ["`callbacks`", "`callbacks` of `createRun`, guardrails, trackers"],
]

/** Content of `docs/from-trl.md`. */
export function trlMarkdown(): string {
  const count = trlRows.length + absent.reduce((sum, { options }) => sum + options.length, 0)
  return [
    "# From TRL's options",
    "",
    "Written by `bun run docs` in `packages/config` from the table that the conversion uses; change the table, not this page.",
    "",
    "`cohort config from-trl args.yaml` reads options of TRL's AsyncGRPOConfig or GRPOConfig, as JSON or YAML, and prints a config. Options that the",
    `file leaves out count with TRL's defaults (release ${TRL_VERSION}). What is not taken over is listed in the new file, with the reason. All ${count} options:`,
    "",
    "| TRL | Of | Here |",
    "|---|---|---|",
    ...trlRows.map(({ option, becomes }) => `| \`${option}\` | ${trainers(option)} | ${cell(becomes)} |`),
    "",
    "## Without a counterpart",
    "",
    "| TRL | Why |",
    "|---|---|",
    ...absent.flatMap(({ reason, options }) => `| ${options.map((option) => `\`${option}\``).join(", ")} | ${cell(reason)} |`),
    "",
    "## Arguments of the trainer",
    "",
    "They are Python objects, so nothing converts them; this is where each has its place:",
    "",
    "| TRL | Here |",
    "|---|---|",
    ...trainerArguments.map(([argument, place]) => `| ${argument} | ${cell(place)} |`),
    "",
  ].join("\n")
}
