// Rewards that throw, completions without text, completions at the cap.
import { expect } from "bun:test"
import { errorOf, faultyRun, readFolder, summaryOf, testRun } from "./faulty-run.ts"
import { eosTokenId, scriptedEngine } from "./scripted-engine.ts"

const minute = 60_000

testRun("a reward that throws for some: those leave their groups, counted; none of them is a zero", async () => {
  let calls = 0
  const run = await faultyRun({
    patch: { rewards: [{ use: "shaky", retries: 0 }] },
    rewards: {
      shaky: () => {
        if (calls++ % 5 === 0) throw new Error("the judge is out")
        return 1
      },
    },
  })
  const summary = await summaryOf(run)
  expect(summary.steps).toBe(4)
  const left = readFolder(run.dir)
  expect(left.memberFailures.length).toBeGreaterThan(0)
  expect(new Set(left.memberFailures)).toEqual(new Set(["reward_failed"]))
  expect(left.violations).toEqual([])
  const steps = run.updates.flatMap((update) => (update.kind === "step" ? [update.report.metrics] : []))
  // Every scored completion got 1: a zero for a failed one would pull the mean down.
  expect(steps.map((metrics) => metrics["reward/mean"])).toEqual([1, 1, 1, 1])
  expect(steps.reduce((sum, metrics) => sum + metrics["samples"]!, 0)).toBeLessThan(64)
  expect(summary.evalBefore?.rewardMean).toBe(1)
}, minute)

testRun("a reward that always throws: the run fails with its words, no step taken", async () => {
  const run = await faultyRun({
    patch: { rewards: [{ use: "broken", retries: 0 }], data: { options: { style: "bare", heldOut: 4 } }, train: { completionsPerStep: 4 } },
    rewards: {
      broken: () => {
        throw new Error("the judge is out")
      },
    },
  })
  const error = await errorOf(run)
  expect(error.code).toBe("reward_failed")
  expect(error.message).toContain("the judge is out")
  const left = readFolder(run.dir, false)
  expect(left.failure).toMatchObject({ code: "reward_failed" })
  expect(left.failure?.hint).toBeString()
  expect(left.summary).toBeUndefined()
  expect(left.trained).toBe(0)
}, minute)

testRun("a reward that begins to throw later: failed as reward_failed, groups counted", async () => {
  let trained = false
  const run = await faultyRun({
    patch: { rewards: [{ use: "tired", retries: 0 }], train: { steps: 100, completionsPerStep: 8 } },
    rewards: {
      tired: (_, { policyVersion }) => {
        trained ||= policyVersion > 0
        if (trained) throw new Error("the judge went home")
        return Math.random()
      },
    },
  })
  const error = await errorOf(run)
  expect(["reward_failed", "worker_failed"]).toContain(error.code)
  expect(error.message).toContain("the judge went home")
  const left = readFolder(run.dir, false)
  expect(left.drops["reward_failed"]).toBeGreaterThan(0)
  expect(left.trained).toBeGreaterThan(0)
}, minute)

testRun("a reward with onFailure abort: its first failure that stays ends the run, typed, with its name, its words and the row", async () => {
  let calls = 0
  const run = await faultyRun({
    patch: { rewards: [{ use: "strict", retries: 1, onFailure: "abort" }] },
    rewards: {
      strict: () => {
        if (calls++ >= 40) throw new Error("the judge is out")
        return Math.random()
      },
    },
  })
  const error = await errorOf(run)
  expect(error.code).toBe("reward_failed")
  expect(error.message).toMatch(/reward strict failed after 2 tries on row .*: strict: threw the judge is out/)
  const left = readFolder(run.dir, false)
  expect(left.failure).toMatchObject({ code: "reward_failed" })
  expect(left.summary).toBeUndefined()
}, minute)

testRun("completions without text are scored as they are and trained: their one token is the stop", async () => {
  const texts: string[] = []
  await using engine = await scriptedEngine((seed) => (seed % 2 === 0 ? [] : [20, 21]))
  const run = await faultyRun({
    patch: { rewards: [{ use: "seen" }], inference: { urls: [engine.url] }, transfer: { kind: "none" }, staleness: { maxSteps: 8 } },
    rewards: {
      seen: ({ text, completionIds, finishReason }) => {
        texts.push(text)
        expect(finishReason).toBe("stop")
        expect(completionIds.at(-1)).toBe(eosTokenId)
        return text === "" ? 0.25 : 0.75
      },
    },
  })
  const summary = await summaryOf(run)
  expect(summary).toMatchObject({ steps: 4, samplesTrained: 64, dropped: {} })
  expect(texts).toContain("")
  expect(new Set(texts).size).toBe(2)
  // One token of an empty completion, three of the other kind.
  expect(summary.trainedTokens).toBeGreaterThan(64)
  expect(summary.trainedTokens).toBeLessThan(3 * 64)
  expect(readFolder(run.dir).violations).toEqual([])
}, minute)

testRun("completions at the cap count as truncated", async () => {
  const run = await faultyRun({ patch: { rollout: { maxCompletionTokens: 1 }, train: { steps: 2 } } })
  const summary = await summaryOf(run)
  expect(summary).toMatchObject({ steps: 2, samplesTrained: 32, trainedTokens: 32 })
  for (const update of run.updates) if (update.kind === "step") expect(update.report.metrics).toMatchObject({ truncated: 1, "length/mean": 1 })
  expect(readFolder(run.dir).violations).toEqual([])
}, minute)

testRun("all completions cut and masked: a typed end, not a turn for ever", async () => {
  await using engine = await scriptedEngine(() => Array.from({ length: 60 }, () => 20))
  const run = await faultyRun({
    patch: {
      rollout: { groupSize: 2, maxCompletionTokens: 8 }, train: { completionsPerStep: 2 }, objective: { maskTruncated: true },
      inference: { urls: [engine.url] }, transfer: { kind: "none" }, rewards: [{ use: "reward-math" }],
    },
  })
  const error = await errorOf(run)
  expect(error.message).toContain("all_truncated")
  expect(error.hint).toBeString()
  const left = readFolder(run.dir, false)
  expect(left.drops["all_truncated"]).toBeGreaterThan(0)
  expect(left.trained).toBe(0)
}, minute)
