// What a task set must keep to: rows that are the same every time, and held-out rows that are never trained on.
import { isDeepStrictEqual } from "node:util"
import type { Environment, PromptRow, RowSource } from "@cohort/env"
import { messageOf } from "@cohort/errors"
import type { EnvironmentDefinition } from "../define.ts"
import { isTaskSet } from "../shape.ts"
import { fakeSetupContext } from "./fake.ts"

const rowsLookedAt = 2_000

/** Problems of one environment definition, set up with valid options; one line each. */
export async function environmentProblems(definition: EnvironmentDefinition, options: unknown): Promise<string[]> {
  const first = await definition.setup(options, fakeSetupContext({ seed: 1 }))
  const second = await definition.setup(options, fakeSetupContext({ seed: 1 }))
  if (typeof first === "function") return episodeProblems(first(), { id: "0", prompt: "" })
  if (!isTaskSet(first) || !isTaskSet(second)) return ["setup returns no task set: { train, heldOut } with name, size and at(index) each"]
  const problems = [...sourceProblems("train", first.train, second.train), ...sourceProblems("heldOut", first.heldOut, second.heldOut)]
  if (problems.length > 0) return problems
  const trained = new Set(sample(first.train).map(promptKey))
  const leaked = sample(first.heldOut).find((row) => trained.has(promptKey(row)))
  if (leaked !== undefined) problems.push(`has the held-out prompt ${promptKey(leaked)} in train too`)
  if (first.environment !== undefined) problems.push(...(await episodeProblems(first.environment(), sample(first.train)[0])))
  return problems
}

function sourceProblems(name: string, first: RowSource, second: RowSource): string[] {
  const problems: string[] = []
  const rows = sample(first)
  if (name === "train" && rows.length === 0) problems.push("train has no rows")
  if (new Set(rows.map((row) => row.id)).size !== rows.length) problems.push(`${name} has two rows with one id`)
  if (!isDeepStrictEqual(rows, sample(second))) problems.push(`${name} differs between two setups with one seed`)
  if (!isDeepStrictEqual(rows, sample(first))) problems.push(`${name}.at gives another row for the same index`)
  if (!isDeepStrictEqual(JSON.parse(JSON.stringify(rows)), rows)) problems.push(`${name} has rows that JSON does not keep`)
  for (const outside of [-1, first.size, 0.5])
    if (!throws(() => first.at(outside))) problems.push(`${name}.at(${outside}) gives a row; the size is ${first.size}`)
  return problems
}

/** All rows of a small source; of a large one the first, the last, and an even spread. */
function sample(source: RowSource): PromptRow[] {
  const count = Math.min(source.size, rowsLookedAt)
  return Array.from({ length: count }, (_, position) => source.at(count < 2 ? 0 : Math.floor((position * (source.size - 1)) / (count - 1))))
}

function promptKey(row: PromptRow): string {
  return JSON.stringify(row.prompt)
}

function throws(act: () => unknown): boolean {
  try {
    act()
    return false
  } catch (error) {
    return error instanceof Error
  }
}

async function episodeProblems(environment: Environment, row: PromptRow | undefined): Promise<string[]> {
  if (row === undefined) return []
  const { signal, log, random } = fakeSetupContext()
  try {
    await environment.reset(row, { signal, log, random })
    await environment.close?.()
    await environment.close?.()
    return []
  } catch (error) {
    return [`fails at reset or close of an episode: ${messageOf(error)}`]
  }
}
