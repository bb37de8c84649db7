// The page that says where each of TRL's options goes.
import { absent } from "./absent.ts"
import { trainersOf, TRL_VERSION, trlRows } from "./table.ts"

const cell = (text: string): string => text.replaceAll("|", "\\|")
const trainers = (option: string): string => trainersOf(option).map((trainer) => (trainer === "async" ? "Async" : "GRPO")).join(", ") || "other"

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
  ].join("\n")
}
