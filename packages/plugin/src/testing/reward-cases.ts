// Runs a reward over written cases and lists those that came out otherwise.
import { asRewardResult, type RewardResult, toReward } from "@cohort/env"
import type { RewardDefinition } from "../define.ts"
import { validateOptions } from "../options.ts"
import { type FakeRollout, fakeSetupContext, fakeRollout } from "./fake.ts"
import { scoreOne } from "./reward-checks.ts"

/** A rollout and what the reward must say: a value, null for not applicable, or "failed". */
export interface RewardCase extends FakeRollout {
  readonly name?: string
  readonly expect: number | null | "failed"
}

/**
 * One line per case that came out otherwise; empty when all are right.
 *
 * @throws CohortError `config_invalid` for wrong options.
 * @example
 * expect(await testReward(plugin.rewards.equivalence, [{ text: "\\boxed{4}", row: { answer: "4" }, expect: 1 }])).toEqual([])
 */
export async function testReward<Options>(definition: RewardDefinition<Options>, cases: readonly RewardCase[], options: unknown = {}): Promise<string[]> {
  const reward = toReward(await definition.setup(await validateOptions("the reward", definition.options, options), fakeSetupContext()))
  const wrong: string[] = []
  try {
    for (const { name, expect, ...given } of cases) {
      const scored = await scoreOne(reward, fakeRollout(given))
      const result = "thrown" in scored ? undefined : asRewardResult(scored.value)
      const got = result === undefined ? `a throw of ${"thrown" in scored ? scored.thrown : ""}` : outcome(result)
      if (got !== expect) wrong.push(`${name ?? JSON.stringify(given.text)}: expected ${String(expect)}, got ${String(got)}${result === undefined ? "" : because(result)}`)
    }
  } finally {
    await reward.close?.()
  }
  return wrong
}

function outcome(result: RewardResult): number | null | "failed" {
  if (result.kind === "ok") return result.value
  return result.kind === "failed" ? "failed" : null
}

function because(result: RewardResult): string {
  if (result.kind === "failed") return ` (${result.error})`
  return result.kind === "ok" && result.reason !== undefined ? ` (${result.reason})` : ""
}
