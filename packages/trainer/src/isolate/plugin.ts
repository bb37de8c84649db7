// A reward or a tool set of the config behind isolates: to scoring and episodes it is one like any other.
import { availableParallelism } from "node:os"
import { type EpisodeContext, failedReward, type JsonObject, type RewardFunction, type Tool, type ToolSet } from "@cohort/env"
import { CohortError, isCohortError, toCohortError } from "@cohort/errors"
import type { LoadedReward, LoadedTools, Registry, SetupContext } from "@cohort/plugin"
import { systemClock } from "@cohort/rollout"
import { type IsolatePool, openIsolatePool } from "./pool.ts"
import { spawnIsolate } from "./process.ts"
import type { IsolatedRewardInfo, IsolatedToolInfo, IsolateRequest, ScoreRequest } from "./request.ts"

/** How the config asks for an isolated part. */
export interface IsolateUse {
  readonly use: string
  readonly options: unknown
  readonly askedBy: string
  readonly deadlineMs: number
  readonly isolateMemoryMb: number
}

export interface IsolateContext {
  readonly registry: Pick<Registry, "installDirs">
  readonly plugins: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly setup: SetupContext
}

/** Something that isolates stand behind. */
export interface Isolated {
  readonly pids: () => readonly number[]
  close(): Promise<void>
}

/** For the caller's own bound: the isolate counts the deadline, from when a call runs and not while it waits for those before it. */
export const boundedByIsolateMs = 2_147_483_647

/** Isolates of one reward or tool set; more would only take memory from one another. */
const most = 4
const startTimeoutMs = 60_000
const mebibyte = 2 ** 20

/**
 * Loads a reward in an isolate. Its calls end as failures that may be tried again when they pass the deadline or the memory cap.
 *
 * @throws CohortError what loading the plugin throws; `timeout`, `worker_failed`
 */
export async function openIsolatedReward(use: IsolateUse, context: IsolateContext): Promise<LoadedReward & Isolated> {
  const { opened, pool } = await open<IsolatedRewardInfo>("reward", use, context)
  const { wholeGroups, ...info } = opened
  const score: NonNullable<RewardFunction["scoreGroup"]> = async (rollouts, { signal, policyVersion }) => {
    try {
      return await pool.call("score", [{ rollouts, policyVersion } satisfies ScoreRequest], signal)
    } catch (error) {
      const { message, code } = toCohortError(error, "reward_failed")
      return rollouts.map(() => failedReward(message, code !== "aborted"))
    }
  }
  const reward: RewardFunction = wholeGroups ? { scoreGroup: score } : { score: async (rollout, ctx) => (await score([rollout], ctx))[0] ?? failedReward("the isolate gave no result") }
  return { ...info, reward, pids: pool.pids, close: () => pool.close() }
}

/**
 * Loads tools in an isolate: the model sees them as their plugin made them, and reads what ended a call.
 *
 * @throws CohortError what loading the plugin throws; `timeout`, `worker_failed`
 */
export async function openIsolatedTools(use: IsolateUse, context: IsolateContext): Promise<LoadedTools & Isolated> {
  const { opened, pool } = await open<readonly IsolatedToolInfo[]>("tools", use, context)
  const tools = opened.map(({ name, description, parameters }): [string, Tool] => [
    name,
    {
      description,
      parameters,
      timeoutMs: boundedByIsolateMs,
      run: (args: JsonObject, ctx: EpisodeContext) =>
        pool.call<never>("run", [name, args, Math.floor(ctx.random() * 2 ** 32)], ctx.signal).catch((error: unknown) => {
          const { message, code } = toCohortError(error, "internal")
          throw code === "timeout" || code === "worker_failed" ? new CohortError(code, `tool ${name} ${message}`, { cause: error }) : error
        }),
    },
  ])
  return { name: use.use, tools: Object.fromEntries(tools) satisfies ToolSet, pids: pool.pids, close: () => pool.close() }
}

async function open<Opened>(kind: IsolateRequest["kind"], use: IsolateUse, { registry, plugins, env, setup }: IsolateContext): Promise<{ readonly opened: Opened; readonly pool: IsolatePool<Opened> }> {
  const { deadlineMs, isolateMemoryMb, options, askedBy } = use
  const log = (line: string): void => setup.log(`[${use.use}] ${line}`)
  const request: IsolateRequest = {
    kind, use: use.use, options, askedBy, plugins, projectDir: setup.projectDir, installDirs: registry.installDirs,
    seed: Math.floor(setup.random() * 2 ** 32),
    ...(setup.run === undefined ? {} : { run: setup.run }),
  }
  try {
    const pool = await openIsolatePool<Opened>(
      {
        what: `${kind} ${use.use} (${askedBy})`,
        size: Math.min(most, availableParallelism()),
        deadlineMs, startTimeoutMs, clock: systemClock, log,
        memoryBytes: isolateMemoryMb * mebibyte,
        spawn: () => spawnIsolate({ env, log }),
        open: (isolate) => isolate.call("open", request),
      },
      setup.signal,
    )
    return { opened: pool.opened, pool }
  } catch (error) {
    if (!isCohortError(error) || error.code !== "plugin_not_found") throw error
    throw new CohortError("plugin_not_found", error.message, { hint: `${error.hint ?? ""} An isolate loads its plugin by itself: one that code added to the registry needs a module of its own.`.trim(), cause: error })
  }
}
