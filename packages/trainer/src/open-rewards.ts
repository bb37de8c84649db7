// The rewards of a config, in this process or in isolates.
import type { SetupContext } from "@cohort/plugin"
import type { RewardEntry } from "@cohort/rollout"
import { Opened } from "./isolate/opened.ts"
import { boundedByIsolateMs, openIsolatedReward } from "./isolate/plugin.ts"
import type { TaskOptions } from "./tasks.ts"

/** The rewards of a run, in the order of the config. */
export interface Rewards {
  readonly entries: readonly RewardEntry[]
  /** The most that the first can give. */
  readonly fullMarks: number
  /** Processes that rewards run in. */
  readonly pids: () => readonly number[]
  close(): Promise<void>
}

/** @throws CohortError `plugin_not_found`, `plugin_invalid`, `config_invalid` naming the key of the config that asked */
export async function openRewards({ config, registry, env }: TaskOptions, setup: SetupContext): Promise<Rewards> {
  const isolates = new Opened()
  const opened = await Promise.allSettled(
    config.rewards.map(async (entry, index): Promise<{ readonly entry: RewardEntry; readonly top: number }> => {
      const { use, options, isolate, weight, deadlineMs, retries, onFailure } = entry
      const askedBy = `rewards[${index}].use`
      const { name, reward, range } = isolate
        ? isolates.add(await openIsolatedReward({ ...entry, askedBy }, { registry, plugins: config.plugins, env, setup }))
        : await registry.reward(use, setup, { options, askedBy })
      if (!isolate) isolates.add({ pids: () => [], close: async () => reward.close?.() })
      return { entry: { name, weight, reward, timeoutMs: isolate ? boundedByIsolateMs : deadlineMs, maxAttempts: retries + 1, onFailure }, top: range?.[1] ?? 1 }
    }),
  )
  const failed = opened.find((one) => one.status === "rejected")
  if (failed !== undefined) {
    await isolates.close()
    throw failed.reason
  }
  const loaded = opened.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []))
  return { entries: numbered(loaded.map(({ entry }) => entry)), fullMarks: loaded[0]?.top ?? 1, pids: isolates.pids, close: () => isolates.close() }
}

/** A plugin that is used twice, with other options, is told apart in figures and by rules that look at each reward: `reward-math`, `reward-math#2`. */
function numbered(entries: readonly RewardEntry[]): readonly RewardEntry[] {
  const seen = new Map<string, number>()
  return entries.map((entry) => {
    const count = (seen.get(entry.name) ?? 0) + 1
    seen.set(entry.name, count)
    return count === 1 ? entry : { ...entry, name: `${entry.name}#${count}` }
  })
}
