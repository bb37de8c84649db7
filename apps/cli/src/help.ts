// Help pages.
import type { ArgDef } from "citty"
import type { Command, CommandGroup } from "./command.ts"
import { type Paint, pad } from "./style.ts"

type Row = readonly [term: string, meaning: string]

/** Terms in one column, meanings in the next, wrapped at `columns`. */
function table(rows: readonly Row[], columns: number, paint: Paint): string[] {
  const width = Math.min(30, Math.max(...rows.map(([term]) => term.length)))
  return rows.flatMap(([term, meaning]) => {
    const [first = "", ...rest] = wrap(meaning, Math.max(30, columns - width - 5))
    const head = term.length > width ? [`  ${paint("cyan", term)}`, `  ${pad("", width)}  ${first}`] : [`  ${paint("cyan", pad(term, width))}  ${first}`]
    return [...head.map((line) => line.trimEnd()), ...rest.map((line) => `  ${pad("", width)}  ${line}`)]
  })
}

/** Words in lines of at most `width` characters; a longer word has a line of its own. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ""
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === "" ? word : `${line} ${word}`
  }
  return [...lines, line]
}

function flag(name: string, arg: ArgDef, optionalValue: boolean): string {
  if (arg.type === "boolean") return `--${name}`
  if (optionalValue) return `--${name} [${arg.valueHint ?? "value"}]`
  return `--${name} ${arg.valueHint ?? "value"}`
}

function meaning(arg: ArgDef): string {
  const fallback = arg.default === undefined || arg.type === "boolean" ? "" : ` (default ${String(arg.default)})`
  return `${arg.description ?? ""}${fallback}`
}

interface PageOptions {
  /** As typed: `cohort train`. */
  readonly name: string
  readonly columns: number
  readonly paint: Paint
}

/** The page of one command. */
export function commandHelp(command: Command, { name, columns, paint }: PageOptions): string {
  const title = (text: string): string => paint("bold", text)
  const args = Object.entries(command.args)
  const positionals = args.filter(([, arg]) => arg.type === "positional")
  const flags = args.filter(([, arg]) => arg.type !== "positional")
  const usage = [name, ...positionals.map(([key, arg]) => (arg.required === false ? `[${key}]` : `<${key}>`)), ...(flags.length > 0 || command.takesSettings ? ["[flags]"] : [])]
  const lines = [command.summary, "", `${title("Usage:")} ${usage.join(" ")}`]
  if (command.details !== undefined) lines.push("", ...command.details.split("\n").flatMap((paragraph) => wrap(paragraph, Math.min(columns, 100))))
  if (positionals.length > 0) lines.push("", title("Arguments:"), ...table(positionals.map(([key, arg]) => [key, meaning(arg)]), columns, paint))
  lines.push("", title("Flags:"), ...table([...flags.map(([key, arg]): Row => [flag(key, arg, command.optionalValues?.[key] !== undefined), meaning(arg)]), ...(command.takesSettings ? settingsRows : []), ["-h, --help", "This page"]], columns, paint))
  if (command.examples !== undefined) {
    const program = name.split(" ")[0]!
    lines.push("", title("Examples:"), ...command.examples.flatMap(([line, what]) => [`  ${paint("cyan", `${program} ${line}`)}`, `      ${what}`]))
  }
  return `${lines.join("\n")}\n`
}

const settingsRows: readonly Row[] = [["--section.key value", "Any setting of a run, as --train.steps 20; goes before the file and the environment. `cohort config show` lists them all"]]

/** The page of a group of commands, and of the program. */
export async function groupHelp(group: CommandGroup, { name, columns, paint }: PageOptions, footer: readonly string[] = []): Promise<string> {
  const rows = await Promise.all(Object.entries(group.commands).map(async ([key, load]): Promise<Row> => [key, (await load()).summary]))
  const lines = [group.summary, "", `${paint("bold", "Usage:")} ${name} <command> [flags]`, "", paint("bold", "Commands:"), ...table(rows, columns, paint), "", `\`${name} <command> --help\` says more about a command.`, ...footer]
  return `${lines.join("\n")}\n`
}
