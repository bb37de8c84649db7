// A short run of the real parts with something broken in it: started, watched, and looked at afterwards as a person would find it.
import { afterEach, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { resolveConfig, type RunConfigInput } from "@cohort/config"
import { type CohortError, isCohortError } from "@cohort/errors"
import { openLedgerReader } from "@cohort/ledger"
import { createRegistry, definePlugin, defineReward, type RewardLike, systemHost } from "@cohort/plugin"
import { findRuntime } from "@cohort/tensor"
import { createRun, type RunSummary, type RunUpdate } from "@cohort/trainer"

export const repository = resolve(import.meta.dir, "../..")

/** Without the library these runs would compile for minutes on the fallback. */
const lookup = findRuntime({ env: process.env })
if (lookup.status !== "found") process.stderr.write(`tests of faulty runs are skipped: ${lookup.reason}. ${lookup.hint}\n`)
export const testRun = test.skipIf(lookup.status !== "found")

const folders: string[] = []
const live = new Map<AbortController, Promise<unknown>>()

afterEach(async () => {
  // A test that failed half-way must not leave its run computing beside the next one.
  for (const [controller, finished] of live) {
    controller.abort()
    await finished
  }
  live.clear()
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true })
})

/** A folder that is gone after the test. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "cohort-faults-"))
  folders.push(folder)
  return folder
}

type Section = "model" | "data" | "rollout" | "staleness" | "train" | "objective" | "inference" | "transfer" | "eval"
export type Patch = { readonly [Name in Section]?: Partial<NonNullable<RunConfigInput[Name]>> } & Pick<RunConfigInput, "rewards" | "environments">

/** Sixteen completions a step, four steps, nothing compiled: over in seconds. */
export function faultyConfig(runDir: string, patch: Patch): RunConfigInput {
  return {
    name: "faulty",
    runDir,
    seed: 1,
    model: { path: join(repository, "models/arithmetic-1m"), ...patch.model },
    rewards: patch.rewards ?? [{ use: "reward-math", options: { strict: true } }],
    environments: patch.environments ?? [],
    data: { source: "env-arithmetic", options: { style: "bare" }, maxPromptTokens: 8, ...patch.data },
    rollout: { groupSize: 4, maxCompletionTokens: 8, generateTimeoutMs: 60_000, ...patch.rollout },
    staleness: { maxSteps: 2, ...patch.staleness },
    train: { steps: 4, completionsPerStep: 16, learningRate: 5e-5, checkpointEverySteps: 0, ...patch.train },
    objective: { ...patch.objective },
    // Nothing is compiled: a run this short is over before a compiler would be.
    backend: { compile: "eager", precision: "f32", threads: 1 },
    inference: { threads: 1, slots: 16, startTimeoutMs: 180_000, ...patch.inference },
    transfer: { ...patch.transfer },
    eval: { prompts: 4, ...patch.eval },
  }
}

export interface FaultyRun {
  readonly dir: string
  readonly updates: readonly RunUpdate[]
  readonly warnings: readonly string[]
  /** Resolves after this optimizer step; rejects when the run ends before. */
  reaches(step: number): Promise<void>
  /** The summary, or the typed error that the run failed with. Anything untyped fails the test. */
  readonly outcome: Promise<RunSummary | CohortError>
}

export interface FaultyOptions {
  readonly patch?: Patch
  /** Rewards by the name that the config uses. */
  readonly rewards?: Readonly<Record<string, RewardLike>>
  readonly resume?: string
  readonly runDir?: string
}

export async function faultyRun(options: FaultyOptions = {}): Promise<FaultyRun> {
  const registry = createRegistry({ ...systemHost(), installDirs: [import.meta.dir] })
  for (const [name, reward] of Object.entries(options.rewards ?? {}))
    registry.add(definePlugin({ name, version: "1.0.0", apiVersion: 1, rewards: { [name]: defineReward({ summary: "For a test.", setup: () => reward }) } }))
  const updates: RunUpdate[] = []
  const controller = new AbortController()
  const waiting = new Set<() => void>()
  const run = await createRun({
    config: resolveConfig(faultyConfig(options.runDir ?? (await temporaryFolder()), options.patch ?? {})),
    registry,
    projectDir: repository,
    env: process.env,
    ...(options.resume === undefined ? {} : { resume: options.resume }),
    onUpdate(update) {
      updates.push(update)
      for (const look of waiting) look()
    },
    signal: controller.signal,
  })
  const outcome = run.finished.catch((error: unknown) => {
    if (isCohortError(error)) return error
    throw error
  })
  live.set(controller, outcome.catch(() => undefined))
  return {
    dir: run.dir,
    updates,
    get warnings() {
      return updates.flatMap((update) => (update.kind === "warning" ? [update.message] : []))
    },
    reaches(step) {
      const reached = Promise.withResolvers<void>()
      const look = (): void => {
        if (updates.some((update) => update.kind === "step" && update.report.step >= step)) reached.resolve()
      }
      waiting.add(look)
      look()
      void outcome.then((end) => reached.reject(new Error(`the run ended before step ${step}: ${JSON.stringify(end)} ${String(end)}`)), reached.reject)
      return reached.promise.finally(() => waiting.delete(look))
    },
    outcome,
  }
}

/** The outcome as a summary; fails with the error's own words otherwise. */
export async function summaryOf(run: FaultyRun): Promise<RunSummary> {
  const outcome = await run.outcome
  if (isCohortError(outcome)) throw outcome
  return outcome
}

/** The outcome as an error; fails when the run finished. */
export async function errorOf(run: FaultyRun): Promise<CohortError> {
  const outcome = await run.outcome
  if (!isCohortError(outcome)) throw new Error(`the run finished: ${JSON.stringify(outcome)}`)
  return outcome
}

/** A run's folder as it was left. */
export interface LeftFolder {
  readonly summary: RunSummary | undefined
  readonly failure: { readonly code: string; readonly message: string; readonly hint: string | null } | undefined
  readonly violations: readonly string[]
  readonly drops: Readonly<Record<string, number>>
  /** Each dropped group: why, and how many of its completions had been generated. */
  readonly droppedGroups: readonly { readonly reason: string; readonly because: string; readonly generated: number }[]
  /** Reasons of single completions that left their group. */
  readonly memberFailures: readonly string[]
  readonly trained: number
}

/** Reads everything that a run must leave readable: config, events, and summary or failure. Throws where it does not. */
export function readFolder(dir: string, ended = true): LeftFolder {
  const json = (name: string): unknown => (existsSync(join(dir, name)) ? JSON.parse(readFileSync(join(dir, name), "utf8")) : undefined)
  const config = json("config.json") as { readonly name: string }
  if (config?.name !== "faulty") throw new Error(`${dir}: config.json is not the run's`)
  using ledger = openLedgerReader(join(dir, "events.db"))
  return {
    summary: json("summary.json") as LeftFolder["summary"],
    failure: json("failure.json") as LeftFolder["failure"],
    violations: ledger.audit({ ended }).violations.map(({ message }) => message),
    drops: ledger.summary().dropsByReason,
    droppedGroups: ledger.events({ kinds: ["group.dropped"] }, 0, 10_000).map(({ reason = "none", data, groupId = "" }) => ({
      reason, because: String(data?.["because"]), generated: ledger.events({ kinds: ["rollout.generated"], groupId }).length,
    })),
    memberFailures: ledger.events({ kinds: ["rollout.failed"] }, 0, 10_000).map(({ reason }) => reason ?? "none"),
    trained: ledger.audit().counts.trained,
  }
}
