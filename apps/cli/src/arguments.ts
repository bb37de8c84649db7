// Parts the words after a command into the command's own flags and the settings of a run (`--train.steps 20`), so that each is
// read by the one that knows it. Unknown flags are refused here: citty would take them silently.
import { configKeys } from "@cohort/config"
import type { ArgsDef } from "citty"
import { usageError } from "./usage-error.ts"

export interface SplitArguments {
  /** For the command. */
  readonly own: readonly string[]
  /** For `loadConfig`. */
  readonly settings: readonly string[]
}

export interface SplitOptions {
  readonly command: string
  readonly args: ArgsDef
  /** Whether `--section.key value` is taken. */
  readonly takesSettings: boolean
  /** Flags whose value may be left out, with what says whether the next word is the value. */
  readonly optionalValues?: Readonly<Record<string, (next: string) => boolean>> | undefined
}

/** Paths of settings that need no value. */
const booleanSettings = new Set(configKeys().filter(({ type }) => type === "true or false").map(({ path }) => path))
const topLevelSettings = new Set(configKeys().map(({ path }) => path.split(".")[0]!))

/**
 * @throws CohortError `config_invalid` for an unknown flag, a flag without its value, a word too many
 * @example
 * splitArguments(["run.toml", "--json", "--train.steps", "20"], { command: "cohort train", args, takesSettings: true })
 * // { own: ["run.toml", "--json"], settings: ["--train.steps", "20"] }
 */
export function splitArguments(argv: readonly string[], { command, args, takesSettings, optionalValues = {} }: SplitOptions): SplitArguments {
  const own: string[] = []
  const settings: string[] = []
  const help = `See: ${command} --help`
  const positionals = Object.values(args).filter(({ type }) => type === "positional").length
  let words = 0
  for (let i = 0; i < argv.length; i++) {
    const token = argv[i]!
    const [, name, inline] = /^--([^=]+)(?:=([\s\S]*))?$/.exec(token) ?? []
    const next = argv[i + 1]
    if (name === undefined) {
      if (token.startsWith("-") && token !== "-") throw usageError(`unknown flag ${token}`, help)
      if (++words > positionals) throw usageError(`unexpected argument ${JSON.stringify(token)}`, help)
      own.push(token)
      continue
    }
    const known = args[name]
    if (known !== undefined && known.type !== "positional") {
      const takes = Object.hasOwn(optionalValues, name) && inline === undefined ? optionalValues[name] : undefined
      if (takes !== undefined) {
        const value = next !== undefined && !next.startsWith("--") && takes(next) ? next : ""
        own.push(`--${name}=${value}`)
        if (value !== "") i++
        continue
      }
      own.push(token)
      if (known.type === "boolean" || inline !== undefined) continue
      if (next === undefined || next.startsWith("--")) throw usageError(`--${name} needs a value`, help)
      own.push(next)
      i++
      continue
    }
    const section = name.replace(/^no-/, "").split(".")[0]!
    if (!takesSettings || !(name.includes(".") || topLevelSettings.has(section))) throw usageError(`unknown flag --${name}`, suggestion(name, args) ?? help)
    settings.push(token)
    const takesNext = booleanSettings.has(name) ? next === "true" || next === "false" : next !== undefined && !next.startsWith("--") && !name.startsWith("no-")
    if (inline !== undefined || !takesNext) continue
    settings.push(next!)
    i++
  }
  return { own, settings }
}

/** "Did you mean --json?" for another spelling or a beginning of a known flag. */
function suggestion(name: string, args: ArgsDef): string | undefined {
  const plain = (text: string): string => text.replaceAll(/[-_]/g, "").toLowerCase()
  const near = Object.keys(args).find((flag) => {
    const [a, b] = [plain(flag), plain(name)]
    return a === b || a.startsWith(b) || b.startsWith(a) || sameLetters(a, b)
  })
  return near === undefined ? undefined : `Did you mean --${near}?`
}

/** True where one swap, or one letter more or less, makes them equal. */
function sameLetters(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1) return false
  const [short, long] = a.length <= b.length ? [a, b] : [b, a]
  if (short.length === long.length) return [...short].toSorted().join("") === [...long].toSorted().join("")
  return [...long].some((_, i) => long.slice(0, i) + long.slice(i + 1) === short)
}

/**
 * A whole number given to a flag.
 *
 * @throws CohortError `config_invalid` naming the flag, the value and the bounds
 */
export function wholeNumber(flag: string, text: string, least: number, most = Number.MAX_SAFE_INTEGER): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (value >= least && value <= most) return value
  throw usageError(`${flag} is ${JSON.stringify(text)}, expected a whole number from ${least}${most === Number.MAX_SAFE_INTEGER ? "" : ` to ${most}`}`, `Write for example ${flag} ${least}.`)
}
