// What a row of the table from TRL's options to ours is, and the builders that most rows need.
import type { JsonTable, JsonValue } from "../json.ts"

/** Which of TRL's trainers the options are for: AsyncGRPOConfig or GRPOConfig. */
export type TrlTrainer = "async" | "grpo"

export interface TrlFacts {
  readonly trainer: TrlTrainer
  /** All options, TRL's defaults filled in. */
  readonly values: JsonTable
  /** Trainer processes that the run had; TRL multiplies its batch by it. */
  readonly processes: number
}

export interface TrlSetting {
  readonly path: string
  readonly value: JsonValue
  /** What is different here, for the reader of the new file. */
  readonly note?: string
}

/** Why a value has no counterpart. `always`: worth saying also when the value is TRL's default. */
export interface TrlRefusal {
  readonly reason: string
  readonly always?: true
}

export interface TrlRow {
  readonly option: string
  /** Cell of the docs table: where it goes, and what differs. */
  readonly becomes: string
  /** A value other than TRL's default; the test of the row and its docs take it. */
  readonly example: JsonValue
  /** Options that the example needs beside it. */
  readonly beside?: JsonTable
  readonly answer: (value: JsonValue, facts: TrlFacts) => readonly TrlSetting[] | TrlRefusal
}

export const isRefusal = (answer: readonly TrlSetting[] | TrlRefusal): answer is TrlRefusal => "reason" in answer

export const refuse = (reason: string): TrlRefusal => ({ reason })

/** The same value under another name. */
export const same = (option: string, path: string, example: JsonValue): TrlRow => ({
  option,
  becomes: `\`${path}\``,
  example,
  answer: (value) => [{ path, value }],
})

/** The same, where null leaves it to Cohort. */
export const sameOrNone = (option: string, path: string, example: JsonValue): TrlRow => ({
  option,
  becomes: `\`${path}\`; left out when null`,
  example,
  answer: (value) => (value === null ? [] : [{ path, value }]),
})

/** Seconds there, milliseconds here. */
export const seconds = (option: string, path: string, example: number): TrlRow => ({
  option,
  becomes: `\`${path}\`, seconds to milliseconds`,
  example,
  answer: (value) => [{ path, value: Math.round(numberOf(value) * 1000) }],
})

/** A choice of words, some of which have no counterpart. */
export const words = (option: string, path: string, example: string, map: Readonly<Record<string, string>>): TrlRow => ({
  option,
  becomes: `\`${path}\`: ${Object.entries(map).map(([from, to]) => (from === to ? from : `${from} is ${to}`)).join(", ")}`,
  example,
  answer: (value) => {
    const found = Object.entries(map).find(([from]) => from === value)
    return found === undefined ? refuse(`${path} takes ${Object.values(map).join(", ")} only`) : [{ path, value: found[1] }]
  },
})

/** NaN for what is no number: the schema then refuses the setting by name. */
export const numberOf = (value: JsonValue | undefined): number => (typeof value === "number" ? value : Number.NaN)

/** Optimizer steps there, where each pass over a batch is one; here a step takes all its passes. */
export function inOurSteps(path: string, steps: number, { values }: TrlFacts): TrlSetting {
  const passes = numberOf(values["num_iterations"] ?? 1)
  return passes > 1 ? { path, value: Math.ceil(steps / passes), note: `${steps} steps of TRL, which counts each of the ${passes} passes over a batch` } : { path, value: steps }
}
