import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { resolveConfig } from "@cohort/config"
import { CohortError } from "@cohort/errors"
import type { Run, RunOptions, RunSummary } from "@cohort/trainer"
import { runSession, shownPath } from "./run-session.ts"
import { testShell } from "./testing.ts"

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "cohort-cli-"))
})
afterAll(() => rm(dir, { recursive: true }))

const loaded = { config: resolveConfig({ model: { path: "m" }, data: { source: "env-arithmetic" } }), origins: {}, warnings: [] }
const summaryOf = (stopped: RunSummary["stopped"]): RunSummary => ({
  runDir: dir, stopped, steps: 1, trainSeconds: 1, seconds: 2, secondsToFirstStep: 1, evalBefore: null, evalAfter: null, samplesTrained: 8, trainedTokens: 80,
  samplesPerSecond: 8, trainedTokensPerSecond: 80, weightSyncs: [], ageP50: 0, ageP95: 0, ageMax: 0, bottleneck: null, dropped: {}, checkpoint: null, peakRssBytes: 1,
})

/** The run itself is scripted: what is tested is what stands around it. */
function session(script: (options: RunOptions) => Promise<RunSummary>, json = false) {
  const shell = testShell({ cwd: dir })
  const createRun = (options: RunOptions): Promise<Run> => Promise.resolve({ id: "r", dir, finished: script(options) })
  return { shell, exitCode: runSession({ shell, loaded, projectDir: dir, json, createRun }) }
}

const step = async ({ onUpdate }: RunOptions): Promise<void> => {
  // createRun returns before its first news.
  await Bun.sleep(1)
  onUpdate({ kind: "step", report: { step: 1, totalSteps: 1, metrics: { "reward/mean": 1 } } })
}

test("--json: one line on stdout, the rest on stderr", async () => {
  const { shell, exitCode } = session(async (options) => (await step(options), summaryOf("steps")), true)
  expect(await exitCode).toBe(0)
  expect(shell.stdout.text.split("\n")).toHaveLength(2)
  expect(JSON.parse(shell.stdout.text)).toMatchObject({ runDir: dir, stopped: "steps", steps: 1 })
  expect(shell.stderr.text).toContain("step 1/1")
  expect(await Bun.file(join(dir, "launch.json")).json()).toEqual({ projectDir: dir })
})

test("without it everything is on stdout", async () => {
  const { shell, exitCode } = session(async (options) => (await step(options), summaryOf("steps")))
  expect(await exitCode).toBe(0)
  expect(shell.stdout.text).toContain("step 1/1  reward 1.00")
  expect(shell.stdout.text).toContain("1 step in 1.0 s of training")
  expect(shell.stderr.text).toBe("")
})

test("Ctrl-C ends with a summary and 130; the second one at once", async () => {
  const { shell, exitCode } = session(async ({ signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }))
    return summaryOf("interrupted")
  })
  await Bun.sleep(20)
  shell.send("SIGINT")
  expect(await exitCode).toBe(130)
  expect(shell.stdout.text).toContain("Ctrl-C again ends at once")
  expect(shell.stdout.text).toContain("(interrupted)")
  expect(shell.exits).toEqual([])

  const stuck = session(() => new Promise(() => {}))
  await Bun.sleep(20)
  stuck.shell.send("SIGINT")
  stuck.shell.nowMs = 1000
  stuck.shell.send("SIGINT")
  expect(stuck.shell.exits).toEqual([130])
})

test("interrupted before training: 130 without a summary; a failure stays a failure, also after Ctrl-C", async () => {
  const early = session(async ({ signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }))
    throw signal.reason
  })
  await Bun.sleep(20)
  early.shell.send("SIGTERM")
  expect(await early.exitCode).toBe(130)
  const { exitCode } = session(() => Promise.reject(new CohortError("numeric", "NaN")))
  await expect(exitCode).rejects.toMatchObject({ code: "numeric" })
})

test("paths are shown as one would type them", () => {
  expect(shownPath("/a/b/runs/x", "/a/b")).toBe("runs/x")
  expect(shownPath("/a/c", "/a/b")).toBe("/a/c")
  expect(shownPath("/a/b", "/a/b")).toBe("/a/b")
})
