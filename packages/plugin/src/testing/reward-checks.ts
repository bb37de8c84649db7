// What a reward must keep to, whatever a model writes.
import { isDeepStrictEqual } from "node:util"
import { asRewardResult, describeValue, type Json, type RewardFunction, type RewardResult, type ScoredRollout, toReward } from "@cohort/env"
import { messageOf } from "@cohort/errors"
import type { RewardDefinition } from "../define.ts"
import { fakeRewardContext, fakeRollout, fakeSetupContext } from "./fake.ts"
import { garbageTexts } from "./garbage.ts"

export interface RewardCheckSettings {
  readonly row?: Readonly<Record<string, Json>>
  readonly scoreMs?: number
  readonly now?: () => number
}

const plainTexts = ["42", "The answer is 42.", "\\boxed{42}", "<answer>42</answer>"]

/** Problems of one reward definition, set up with valid options; one line each. */
export async function rewardProblems(definition: RewardDefinition, options: unknown, settings: RewardCheckSettings): Promise<string[]> {
  const { scoreMs = 500, now = () => performance.now() } = settings
  const problems: string[] = []
  const make = async () => toReward(await definition.setup(options, fakeSetupContext({ seed: 1 })))
  const needs = typeof definition.needs === "function" ? definition.needs(options) : (definition.needs ?? [])
  const row = { ...Object.fromEntries(needs.map((column) => [column, "42"])), ...settings.row }
  const [first, second] = [await make(), await make()]
  for (const text of [...plainTexts, ...garbageTexts]) {
    const label = `on ${describeValue(text)}`
    const rollout = fakeRollout({ text, row })
    const startedAt = now()
    const scored = await scoreOne(first, rollout)
    const tookMs = now() - startedAt
    if ("thrown" in scored) {
      problems.push(`throws ${label}: ${scored.thrown}`)
      continue
    }
    if (tookMs > scoreMs) problems.push(`takes ${Math.round(tookMs)} ms ${label}; the limit is ${scoreMs} ms`)
    problems.push(...resultProblems(scored.value, definition).map((problem) => `${problem} ${label}`))
    if (definition.deterministic === true) {
      const again = await scoreOne(second, rollout)
      if (!("value" in again) || !isDeepStrictEqual(again.value, scored.value)) problems.push(`says it is deterministic but gives another result ${label}`)
    }
  }
  problems.push(...(await missingColumnProblems(first, needs, row)), ...(await closeProblems([first, second])))
  return problems
}

/** The value that a reward returned for one rollout, or what it threw. */
export async function scoreOne(reward: RewardFunction, rollout: ScoredRollout): Promise<{ readonly value: unknown } | { readonly thrown: string }> {
  try {
    if (reward.scoreGroup === undefined) return { value: await reward.score?.(rollout, fakeRewardContext()) }
    const values: unknown = await reward.scoreGroup([rollout], fakeRewardContext())
    if (!Array.isArray(values) || values.length !== 1) return { thrown: `scoreGroup returned ${describeValue(values)} for 1 rollout` }
    return { value: values[0] as unknown }
  } catch (error) {
    return { thrown: messageOf(error) }
  }
}

function resultProblems(value: unknown, definition: RewardDefinition): string[] {
  const result: RewardResult = asRewardResult(value)
  if (result.kind === "failed" && (value as { kind?: unknown } | undefined)?.kind !== "failed") return [result.error]
  const problems: string[] = []
  if (!isDeepStrictEqual(JSON.parse(JSON.stringify(result)), { ...result })) problems.push("gives a result that JSON does not keep")
  const [lowest, highest] = definition.range ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]
  if (result.kind === "ok" && (result.value < lowest || result.value > highest)) problems.push(`gives ${result.value}, outside its range [${lowest}, ${highest}],`)
  return problems
}

async function missingColumnProblems(reward: RewardFunction, needs: readonly string[], row: Readonly<Record<string, Json>>): Promise<string[]> {
  const problems: string[] = []
  for (const column of needs) {
    const { [column]: _, ...rest } = row
    const scored = await scoreOne(reward, fakeRollout({ text: "42", row: rest }))
    if ("thrown" in scored) problems.push(`throws where the column ${column} is missing: ${scored.thrown}`)
    else if (asRewardResult(scored.value).kind === "ok") problems.push(`gives a score where the column ${column}, which it needs, is missing`)
  }
  return problems
}

async function closeProblems(rewards: readonly RewardFunction[]): Promise<string[]> {
  try {
    for (const reward of rewards) {
      await reward.close?.()
      await reward.close?.()
    }
    return []
  } catch (error) {
    return [`throws when closed (twice): ${messageOf(error)}`]
  }
}
