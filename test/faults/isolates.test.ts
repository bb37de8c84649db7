// Rewards that never return or take all memory, in a real run: isolated, they cost their own completion and nothing else.
import { expect } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { errorOf, faultyRun, readFolder, summaryOf, temporaryFolder, testRun } from "./faulty-run.ts"

const minute = 60_000

async function rewardFile(body: string): Promise<string> {
  const path = join(await temporaryFolder(), "reward.ts")
  await writeFile(path, `const kept = []\nexport default ({ completionIds }) => {\n${body}\n  return completionIds.length / 8\n}\n`)
  return path
}

/** Isolates that this process started and that live. */
function isolates(): readonly string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("isolate/main.ts") && readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ")[1] === String(process.pid)
    } catch {
      // It ended between two looks.
      return false
    }
  })
}

testRun("an endless loop and an endless allocation in an isolated reward: the run goes on to its end, those completions leave their groups", async () => {
  const use = await rewardFile(`
    if (completionIds[0] % 5 === 0) for (;;) {}
    if (completionIds[0] % 5 === 1) for (;;) kept.push(new Uint8Array(1 << 20).fill(1))`)
  const run = await faultyRun({ patch: { rewards: [{ use, isolate: true, isolateMemoryMb: 200, deadlineMs: 250, retries: 0 }], train: { steps: 2 }, eval: { prompts: 2 } } })
  const summary = await summaryOf(run)
  expect(summary.steps).toBe(2)
  const left = readFolder(run.dir)
  expect(left.violations).toEqual([])
  expect(new Set(left.memberFailures)).toEqual(new Set(["reward_failed"]))
  expect(isolates()).toEqual([])
}, 2 * minute)

testRun("an isolated reward that always loops ends the run as typed, with the deadline in its words", async () => {
  const use = await rewardFile("for (;;) {}")
  const run = await faultyRun({ patch: { rewards: [{ use, isolate: true, deadlineMs: 100, retries: 1, onFailure: "abort" }], data: { options: { style: "bare", heldOut: 4 } }, train: { completionsPerStep: 4 } } })
  const error = await errorOf(run)
  expect(error.code).toBe("reward_failed")
  expect(error.message).toContain("took longer than 100 ms and was ended")
  expect(isolates()).toEqual([])
}, minute)
