// Rollouts in a thread of their own: the same run, and what happens when that thread dies.
import { expect } from "bun:test"
import { errorOf, faultyRun, readFolder, summaryOf, testRun } from "./faulty-run.ts"

const minute = 60_000
const rewards = new URL("./rewards-by-path.ts", import.meta.url).pathname

testRun("a run whose rollouts are in a thread trains, and its ledger closes", async () => {
  const run = await faultyRun({ patch: { rewards: [{ use: `${rewards}#digit` }], rollout: { thread: true } } })
  const summary = await summaryOf(run)
  expect(summary).toMatchObject({ stopped: "steps", steps: 4 })
  const left = readFolder(run.dir)
  expect(left.violations).toEqual([])
  const steps = run.updates.flatMap((update) => (update.kind === "step" ? [update.report.metrics] : []))
  const inThread = steps.flatMap((metrics) => Object.entries(metrics).filter(([name]) => name.endsWith("/thread")).map(([, value]) => value))
  expect(inThread).toEqual([1, 1, 1, 1])
  expect(steps.every((metrics) => metrics["age/max"] !== undefined && metrics["queue/depth"] !== undefined)).toBe(true)
}, minute)

testRun("a reward that ends its thread ends the run as worker_failed; everything in flight goes back, and a resumed run trains it", async () => {
  const run = await faultyRun({ patch: { rewards: [{ use: `${rewards}#deadly` }], rollout: { thread: true }, staleness: { maxSteps: 0 }, train: { checkpointEverySteps: 1 } } })
  const error = await errorOf(run)
  expect([error.code, error.message, error.hint]).toEqual(["worker_failed", "the rollout thread is gone: it ended with code 9", expect.stringContaining("can be resumed")])
  expect(readFolder(run.dir, false).violations).toEqual([])
  const resumed = await faultyRun({ resume: run.dir, patch: { rewards: [{ use: `${rewards}#digit` }], rollout: { thread: true } } })
  expect((await summaryOf(resumed)).steps).toBe(4)
  expect(readFolder(run.dir).violations).toEqual([])
}, 2 * minute)

testRun("an unknown reward is told before anything is trained, by the key that asked for it", async () => {
  const run = await faultyRun({ patch: { rewards: [{ use: `${rewards}#absent` }], rollout: { thread: true } } })
  expect((await errorOf(run)).message).toContain("absent")
}, minute)
