// The page that lists every setting, drawn from the schema.
import { describeType } from "./describe.ts"
import { showValue } from "./json.ts"
import { configKeys, type ConfigKey } from "./keys.ts"
import { RESUME_FIXED } from "./resume.ts"
import { docOf, itemTable, keyNodes, sectionNodes } from "./tree.ts"

const cell = (text: string): string => text.replaceAll("|", "\\|")
const code = (text: string): string => `\`${text}\``

function row(name: string, type: string, value: string, doc: string): string {
  return `| ${code(name)} | ${cell(type)} | ${cell(value)} | ${cell(doc)} |`
}

function defaultOf(key: ConfigKey): string {
  if (key.default !== undefined) return code(showValue(key.default))
  return key.required ? "required" : "none"
}

const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf(".")))

const HEAD = ["| Key | Takes | Default | Meaning |", "|---|---|---|---|"]

function sectionTable(keys: readonly ConfigKey[]): string[] {
  return [...HEAD, ...keys.map((key) => row(key.path, key.type, defaultOf(key), key.doc))]
}

/** Tables of the lists whose items are tables. */
function itemTables(): string[] {
  return keyNodes.flatMap(({ path, schema }) => {
    const entries = itemTable(schema)?.entries
    if (entries === undefined) return []
    const rows = Object.entries(entries).map(([name, entry]) =>
      row(`${path}[].${name}`, describeType(entry), entry.wrapped === undefined ? "required" : code(showValue(entry.default)), docOf(entry)),
    )
    const short = "use" in entries ? ["", "A name alone is short for a table with only `use`."] : []
    return ["", `## Items of \`${path}\``, ...short, "", ...HEAD, ...rows]
  })
}

/** Content of `docs/config.md`. */
export function configMarkdown(): string {
  const keys = configKeys()
  const root = keys.filter((key) => !key.path.includes("."))
  const sections = sectionNodes.flatMap((section) => [
    "",
    `## ${section.path}`,
    "",
    `${section.doc}.${section.optional ? " The section may be left out." : ""}`,
    "",
    ...sectionTable(keys.filter((key) => parentOf(key.path) === section.path)),
  ])
  return [
    "# Settings of a run",
    "",
    "Written by `bun run docs` in `packages/config` from the schema; change the schema, not this page.",
    "",
    "A config file is `.toml`, `.yaml`, `.yml`, `.json`, `.jsonc`, `.json5` or `.ts` (with `defineConfig`). Every setting is also a flag",
    "(`--train.learningRate 1e-5`) and an environment variable (`COHORT__TRAIN__LEARNING_RATE=1e-5`). A flag wins over the environment, that over",
    "the file, that over the default; `cohort config show` prints each value with its origin. Tables merge, lists replace one another.",
    "",
    "- Flags and variables: `true` or `false`; a boolean flag alone is true, `--no-data.shuffle` is false. Lists are JSON or `a,b`; a list flag may",
    "  be repeated. Names inside free-form tables follow the path: `--data.options.digits 2`. An empty variable counts as unset.",
    "- Whole numbers are written in digits; `1e-5` is fine where fractions are. In a file a number in quotes is an error.",
    "- Unknown keys are refused, with the key that was probably meant, and so are keys given twice. All problems are reported at once.",
    `- On resume these must be as they were: ${RESUME_FIXED.map(code).join(", ")}.`,
    "",
    "## Top level",
    "",
    ...sectionTable(root),
    ...sections,
    ...itemTables(),
    "",
  ].join("\n")
}
