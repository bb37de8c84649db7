// Holds a reward to what its definition says: a score outside the declared range is a failed reward, not a number.
import { asRewardResult, failedReward, type RewardFunction, type RewardResult } from "@cohort/env"

/** The same reward with the range checked; the reward itself where no range is declared. */
export function withRange(reward: RewardFunction, range: readonly [lowest: number, highest: number] | undefined): RewardFunction {
  if (range === undefined) return reward
  const check = (value: unknown) => inRange(asRewardResult(value), range)
  return {
    ...(reward.score === undefined ? {} : { score: async (rollout, ctx) => check(await reward.score?.(rollout, ctx)) }),
    ...(reward.scoreGroup === undefined
      ? {}
      : {
          async scoreGroup(rollouts, ctx) {
            const values = await reward.scoreGroup?.(rollouts, ctx)
            // What is no array goes on as it is: runReward names it with the expected count.
            return Array.isArray(values) ? Array.from(values, check) : (values ?? [])
          },
        }),
    ...(reward.close === undefined ? {} : { close: () => reward.close?.() }),
  }
}

function inRange(result: RewardResult, [lowest, highest]: readonly [number, number]): RewardResult {
  if (result.kind !== "ok" || (result.value >= lowest && result.value <= highest)) return result
  return failedReward(`returned ${result.value}, outside its declared range [${lowest}, ${highest}]`)
}
