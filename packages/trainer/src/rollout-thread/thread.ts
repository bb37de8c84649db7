// The rollout thread: a reward or a tool that blocks blocks it, and never the training.
import type { RunConfig } from "@cohort/config"
import { createRegistry, type SetupContext, systemHost } from "@cohort/plugin"
import { createRolloutWorker, type HostedWorker, portToRun, type RunLink, seededRandom, serveRolloutWorker, systemClock } from "@cohort/rollout"
import { openRewards } from "../open-rewards.ts"
import { episodeServices, openEpisodes } from "../tasks.ts"
import { workerOptions } from "../worker-options.ts"

/** What crosses at the start. */
export interface ThreadSettings {
  readonly config: RunConfig
  readonly env: Readonly<Record<string, string | undefined>>
  readonly installDirs: readonly string[]
  readonly projectDir: string
  readonly modelFolder: string
  readonly runFolder: NonNullable<SetupContext["run"]>
  readonly maxModelLength: number
  readonly slots: number
  readonly startVersion: number
}

async function open({ settings, throttle, server, ...link }: RunLink<ThreadSettings>): Promise<HostedWorker> {
  const { config, env, installDirs, maxModelLength, modelFolder, projectDir, runFolder, slots, startVersion } = settings
  const registry = createRegistry({ ...systemHost(), installDirs })
  // The thread ends with the run; nothing in it ends before.
  const setup: SetupContext = { signal: new AbortController().signal, log: link.log, random: seededRandom(config.seed), projectDir, run: runFolder }
  const asked = { config, registry, projectDir, env }
  const tasks = await openEpisodes(asked, setup)
  try {
    const rewards = await openRewards(asked, setup)
    const services = episodeServices(config, modelFolder, server, maxModelLength, link.log, tasks.tools)
    const worker = createRolloutWorker(workerOptions(config, { ...link, services, tasks, rewards: rewards.entries, slots, startVersion, throttle }))
    return { worker, close: async () => void (await Promise.allSettled([rewards.close(), tasks.close()])) }
  } catch (error) {
    await tasks.close()
    throw error
  }
}

serveRolloutWorker(portToRun(), open, { clock: systemClock, heartbeatMs: 1_000 })
