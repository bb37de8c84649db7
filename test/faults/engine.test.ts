// The inference engine dies, its port is taken, its prompts do not fit.
import { expect, test } from "bun:test"
import { join } from "node:path"
import { spawnEngineProcess } from "@cohort/engine/process"
import { cacheFolder, defaultOpenOptions, systemHost } from "@cohort/tensor"
import { enginePids } from "./engine-process.ts"
import { errorOf, faultyRun, readFolder, repository, summaryOf, temporaryFolder, testRun } from "./faulty-run.ts"

const minute = 60_000

testRun("an engine killed in the middle: a warning, another engine, and the run finishes", async () => {
  const run = await faultyRun({ patch: { train: { steps: 8 } } })
  await run.reaches(2)
  const [pid] = enginePids()
  process.kill(pid!, "SIGKILL")
  const summary = await summaryOf(run)
  expect(summary).toMatchObject({ stopped: "steps", steps: 8, samplesTrained: 8 * 16 })
  expect(run.warnings.join("\n")).toContain("the engine process ended with SIGKILL; starting it again (1 of 3)")
  expect(enginePids()).toEqual([])
  const left = readFolder(run.dir)
  expect(left.violations).toEqual([])
  expect(left.summary?.steps).toBe(8)
  // What was in flight is generated again, not dropped.
  expect(left.drops).toEqual({})
}, 2 * minute)

testRun("an engine that cannot come back since its port is taken: said, and a typed end", async () => {
  const run = await faultyRun({ patch: { train: { steps: 500 }, rollout: { generateTimeoutMs: 2_000 } } })
  await run.reaches(1)
  const [pid] = enginePids()
  const address = run.updates.flatMap((update) => (update.kind === "phase" ? (/http:\/\/127\.0\.0\.1:(\d+)/.exec(update.message) ?? []) : []))
  process.kill(pid!, "SIGKILL")
  let squatter: Bun.Server<undefined> | undefined
  while (squatter === undefined) {
    try {
      squatter = Bun.serve({ hostname: "127.0.0.1", port: Number(address[1]), fetch: () => new Response("not an engine", { status: 404 }) })
    } catch (error) {
      if ((error as { readonly code?: string }).code !== "EADDRINUSE") throw error
      // The dead engine's socket is not yet closed.
      await Bun.sleep(1)
    }
  }
  const error = await errorOf(run)
  await squatter.stop(true)
  expect(run.warnings.join("\n")).toContain("the engine process ended with SIGKILL")
  expect(["worker_failed", "inference_unreachable", "transfer_failed", "inference_failed", "timeout", "inference_rejected"]).toContain(error.code)
  const left = readFolder(run.dir, false)
  expect(left.failure?.code).toBe(error.code)
  expect(enginePids()).toEqual([])
}, 2 * minute)

testRun("an engine asked for a taken port says which", async () => {
  const taken = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("") })
  try {
    const runtime = await defaultOpenOptions({ env: process.env, signal: AbortSignal.timeout(minute), onProgress: () => undefined })
    const start = spawnEngineProcess(
      { modelFolder: join(repository, "models/arithmetic-1m"), modelName: "policy", runtime: { ...runtime, threads: 1 }, slots: 2, dtype: "f32", port: taken.port!, formMemory: join(cacheFolder(process.env, systemHost().home), "forms", "decode.json") },
      { startTimeoutMs: minute, signal: AbortSignal.timeout(minute) },
    )
    expect(await start.catch((error: unknown) => error)).toMatchObject({ code: "port_in_use", hint: expect.stringContaining("another port") })
  } finally {
    await taken.stop(true)
  }
}, minute)

testRun("prompts longer than the window are dropped by name, the others are trained", async () => {
  const folder = await temporaryFolder()
  const source = join(folder, "rows.jsonl")
  const rows = Array.from({ length: 40 }, (_, i) => ({ prompt: i % 4 === 1 ? "1+".repeat(80) : `${10 + i}+11=`, answer: String(21 + i) }))
  await Bun.write(source, rows.map((row) => JSON.stringify(row)).join("\n"))
  const run = await faultyRun({ patch: { data: { source, options: {}, maxPromptTokens: 500 } } })
  const summary = await summaryOf(run)
  expect(summary).toMatchObject({ steps: 4, samplesTrained: 64 })
  const left = readFolder(run.dir)
  expect(left.droppedGroups.length).toBeGreaterThan(0)
  for (const group of left.droppedGroups) expect(group).toMatchObject({ reason: "prompt_too_long", because: expect.stringContaining("160 prompt tokens leave no room in a window of"), generated: 0 })
  expect(left.violations).toEqual([])
}, minute)

testRun("prompts longer than data.maxPromptTokens are dropped before anything is generated, and counted in the step's figures", async () => {
  const folder = await temporaryFolder()
  const source = join(folder, "rows.jsonl")
  const rows = Array.from({ length: 40 }, (_, i) => ({ prompt: i % 4 === 1 ? "1+".repeat(10) : `${10 + i}+11=`, answer: String(21 + i) }))
  await Bun.write(source, rows.map((row) => JSON.stringify(row)).join("\n"))
  const run = await faultyRun({ patch: { data: { source, options: {}, maxPromptTokens: 8 } } })
  const summary = await summaryOf(run)
  expect(summary).toMatchObject({ steps: 4, samplesTrained: 64 })
  expect(Object.keys(summary.dropped)).toEqual(["prompt_too_long"])
  const left = readFolder(run.dir)
  expect(left.violations).toEqual([])
  expect(left.droppedGroups.length).toBe(summary.dropped["prompt_too_long"]!)
  for (const group of left.droppedGroups) expect(group).toEqual({ reason: "prompt_too_long", because: "20 prompt tokens; maxPromptTokens is 8", generated: 0 })
  const counted = run.updates.reduce((sum, update) => sum + (update.kind === "step" ? (update.report.metrics["dropped/prompt_too_long"] ?? 0) : 0), 0)
  expect(counted).toBeGreaterThan(0)
  expect(counted).toBeLessThanOrEqual(left.droppedGroups.length)
}, minute)

testRun("evaluation prompts that cannot be answered leave the figures and are named in a warning", async () => {
  const folder = await temporaryFolder()
  const [source, evalSource] = [join(folder, "rows.jsonl"), join(folder, "held-out.jsonl")]
  const rows = Array.from({ length: 40 }, (_, i) => ({ prompt: `${10 + i}+11=`, answer: String(21 + i) }))
  const lines = (all: readonly object[]): string => all.map((row) => JSON.stringify(row)).join("\n")
  await Bun.write(source, lines(rows))
  await Bun.write(evalSource, lines([{ prompt: "1+".repeat(10), answer: "1" }, ...rows.slice(0, 3)]))
  const run = await faultyRun({ patch: { data: { source, evalSource, options: {} }, train: { steps: 1 } } })
  expect((await summaryOf(run)).evalBefore).toMatchObject({ prompts: 4, unscored: 1 })
  expect(run.warnings.join("\n")).toContain("1 of 4 evaluation completions could not be scored and are left out of its figures: 1 prompt_too_long (20 prompt tokens; maxPromptTokens is 8)")
}, minute)

testRun("when no prompt fits, the run says so instead of turning for ever", async () => {
  const folder = await temporaryFolder()
  const source = join(folder, "rows.jsonl")
  await Bun.write(source, Array.from({ length: 8 }, () => JSON.stringify({ prompt: "1+".repeat(80), answer: "1" })).join("\n"))
  const run = await faultyRun({ patch: { data: { source, options: {}, maxPromptTokens: 500 }, train: { completionsPerStep: 4 } } })
  const error = await errorOf(run)
  expect(error.code).toBe("config_invalid")
  expect(String(error)).toContain("100 groups in a row were dropped; the last one: prompt_too_long: 160 prompt tokens leave no room in a window of")
  expect(error.hint).toContain("data.maxPromptTokens")
  const left = readFolder(run.dir, false)
  expect(left.failure?.code).toBe(error.code)
  expect(left.drops["prompt_too_long"]).toBeGreaterThan(0)
}, minute)

test("the process table shows no engine of these tests", () => {
  expect(enginePids()).toEqual([])
})
