// A config of TRL's AsyncGRPOTrainer or GRPOTrainer as ours: what could be taken over, and what could not, each with the reason.
import { CohortError } from "@cohort/errors"
import { describeType } from "../describe.ts"
import { parseTable } from "../file.ts"
import { toToml } from "../format.ts"
import { isJsonValue, type JsonTable, type JsonValue } from "../json.ts"
import { editDistance } from "../suggest.ts"
import { keyNodes, nodeAt } from "../tree.ts"
import { isRefusal, type TrlFacts, type TrlTrainer } from "./row.ts"
import { absentReasons, extraDefaults, trainersOf, trlDefaults, trlRows } from "./table.ts"

export interface FromTrlOptions {
  /** Which trainer the options are for; found out from options that only one of them has, else async. */
  readonly trainer?: TrlTrainer
  /** Trainer processes of the old run, which multiply its batch; 1 when absent. */
  readonly processes?: number
  /** Named in errors. */
  readonly name?: string
}

/** One option that was taken over. */
export interface MappedOption {
  /** Empty for what is true of the trainer itself. */
  readonly option: string
  readonly path: string
  readonly value: JsonValue
  readonly note?: string
}

export interface UnmappedOption {
  readonly option: string
  readonly value: JsonValue
  readonly reason: string
}

export interface FromTrl {
  readonly trainer: TrlTrainer
  /** A config file: settings that differ from our defaults or were given, comments for what is left to do. */
  readonly toml: string
  /** The same settings by dotted path. */
  readonly settings: Readonly<Record<string, JsonValue>>
  readonly mapped: readonly MappedOption[]
  readonly notMapped: readonly UnmappedOption[]
}

/** What no option says, being true of the trainer. */
const implied: Readonly<Record<TrlTrainer, readonly Omit<MappedOption, "option">[]>> = {
  async: [{ path: "objective.standardDeviation", value: "population", note: "as AsyncGRPOTrainer has it, with 1e-8 added" }],
  grpo: [{ path: "objective.oldPolicy", value: "proximal", note: "GRPOTrainer's ratio is to its own log-probs" }],
}

/**
 * Reads options of TRL's AsyncGRPOConfig or GRPOConfig (JSON or YAML, as `trl grpo --config` takes or as a run saved them) and writes ours.
 * Options that are not given count with TRL's defaults, so the result trains as TRL would, not as our defaults do.
 *
 * Throws `config_invalid` when the text does not parse, or mixes options of both trainers.
 *
 * @example
 * const { toml, notMapped } = fromTrl("num_generations: 4\nlearning_rate: 1.0e-5\n")
 */
export function fromTrl(text: string, options: FromTrlOptions = {}): FromTrl {
  const given = jsonTable(parseTable(options.name ?? "the TRL options", text))
  const trainer = trainerOf(given, options.trainer)
  const facts: TrlFacts = { trainer, values: { ...extraDefaults, ...trlDefaults[trainer], ...given }, processes: options.processes ?? 1 }
  const mapped = new Map<string, MappedOption>(implied[trainer].map((setting) => [setting.path, { option: "", ...setting }]))
  const notMapped: UnmappedOption[] = []
  for (const { option, answer } of trlRows) {
    const value = facts.values[option]
    if (value === undefined) continue
    const result = answer(value, facts)
    if (isRefusal(result)) {
      if (result.always === true || isChanged(option, given, trainer)) notMapped.push({ option, value, reason: result.reason })
      continue
    }
    for (const setting of result) {
      const wanted = Object.hasOwn(given, option) || !isOurDefault(setting.path, setting.value)
      if (!wanted) continue
      const problem = valueProblem(setting.path, setting.value)
      // Where several options make one setting, it is put down to one that was given.
      const known = mapped.get(setting.path)
      const named = known !== undefined && Object.hasOwn(given, known.option) && !Object.hasOwn(given, option) ? known.option : option
      if (problem === undefined) mapped.set(setting.path, { option: named, ...setting })
      else notMapped.push({ option, value, reason: problem })
    }
  }
  for (const [option, value] of Object.entries(given)) {
    if (trlRows.some((row) => row.option === option)) continue
    const reason = absentReasons.get(option)
    if (reason === undefined) notMapped.push({ option, value, reason: unknownReason(option) })
    else if (isChanged(option, given, trainer)) notMapped.push({ option, value, reason })
  }
  const order = new Map(keyNodes.map(({ path }, index) => [path, index]))
  const list = [...mapped.values()].toSorted((a, b) => order.get(a.path)! - order.get(b.path)!)
  return { trainer, settings: Object.fromEntries(list.map(({ path, value }) => [path, value])), mapped: list, notMapped, toml: tomlOf(list, notMapped, given) }
}

function jsonTable(table: Readonly<Record<string, unknown>>): JsonTable {
  if (isJsonValue(table)) return table as JsonTable // a table, whose values are JSON
  throw new CohortError("config_invalid", "the TRL options hold a value that JSON does not have", { hint: "Write dates as text." })
}

function trainerOf(given: JsonTable, asked: TrlTrainer | undefined): TrlTrainer {
  const only = (trainer: TrlTrainer): string[] => Object.keys(given).filter((option) => trainersOf(option).join() === trainer)
  const [asynchronous, synchronous] = [only("async"), only("grpo")]
  if (asked !== undefined) return asked
  if (asynchronous.length > 0 && synchronous.length > 0)
    throw new CohortError("config_invalid", `${asynchronous.join(", ")} belong to AsyncGRPOConfig, ${synchronous.join(", ")} to GRPOConfig`, {
      hint: "Say which trainer the file is for; options of the other are then reported one by one.",
      details: { async: asynchronous, grpo: synchronous },
    })
  return synchronous.length > 0 ? "grpo" : "async"
}

const sameJson = (a: JsonValue | undefined, b: JsonValue | undefined): boolean => JSON.stringify(a) === JSON.stringify(b)

/** Given, and other than TRL's default. */
function isChanged(option: string, given: JsonTable, trainer: TrlTrainer): boolean {
  const defaults = Object.hasOwn(trlDefaults[trainer], option) ? trlDefaults[trainer] : extraDefaults
  return Object.hasOwn(given, option) && !sameJson(given[option], defaults[option])
}

function isOurDefault(path: string, value: JsonValue): boolean {
  const node = nodeAt(path)
  return node?.kind === "key" && isJsonValue(node.default) && sameJson(node.default, value)
}

/** A value of a type that our setting does not take: text in place of a number, a bound that is passed. */
function valueProblem(path: string, value: JsonValue): string | undefined {
  const node = nodeAt(path)
  if (node?.kind !== "key") return `there is no setting ${path}`
  return node.accepts(value) ? undefined : `${path} takes ${describeType(node.schema)}`
}

function unknownReason(option: string): string {
  const known = [...trlRows.map((row) => row.option), ...absentReasons.keys()]
  const close = known.find((name) => editDistance(name, option) <= 2)
  return `no option of TRL's AsyncGRPOConfig or GRPOConfig${close === undefined ? "" : `; did you mean ${close}?`}`
}

function tomlOf(mapped: readonly MappedOption[], notMapped: readonly UnmappedOption[], given: JsonTable): string {
  const missing = ["model.path", "data.source"].filter((path) => !mapped.some((setting) => setting.path === path))
  const oneLine = (text: string): string => text.replaceAll(/\s+/g, " ")
  return [
    ...missing.map((path) => `# ${path} = "..."  # to be set: TRL gives it to the trainer, not to its options`),
    ...mapped.map(({ path, value, option, note }) => {
      const from = option === "" || Object.hasOwn(given, option) ? option : `${option}, TRL's default`
      const origin = [from, note].filter((text) => text !== undefined && text !== "").join("; ")
      return `${path} = ${toToml(value) ?? JSON.stringify(value)}  # ${oneLine(origin)}`
    }),
    ...notMapped.map(({ option, value, reason }) => `# not taken over: ${option} = ${oneLine(JSON.stringify(value))}: ${oneLine(reason)}`),
    "",
  ].join("\n")
}
