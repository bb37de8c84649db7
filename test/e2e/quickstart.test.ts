// A whole run as a process: its one JSON line, interruption, sudden death, and going on afterwards.
import { expect, test } from "bun:test"
import { existsSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { openLedgerReader } from "@cohort/ledger"
import { cohort, type Program, repository, small, temporaryFolder, testRun, until } from "./program.ts"

const minutes = 60_000

function summaryOf(program: Program): Record<string, unknown> & { readonly runDir: string } {
  const lines = program.out.trimEnd().split("\n")
  expect(lines).toHaveLength(1)
  return JSON.parse(lines[0]!)
}

function violations(runDir: string): readonly string[] {
  using ledger = openLedgerReader(join(runDir, "events.db"))
  return ledger.audit({ ended: true }).violations.map(({ message }) => message)
}

const checkpoints = async (runDir: string): Promise<string[]> => (await readdir(join(runDir, "checkpoints"))).filter((name) => /^step-\d+$/.test(name)).toSorted()

/** Process ids below one. */
async function children(pid: number): Promise<number[]> {
  const { stdout } = Bun.spawnSync(["ps", "-A", "-o", "pid=,ppid="])
  const pairs = stdout.toString().trim().split("\n").map((line) => line.trim().split(/\s+/).map(Number))
  return pairs.flatMap(([child, parent]) => (parent === pid ? [child!] : []))
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    // No such process: that is the answer.
    return false
  }
}

testRun("the quickstart prints one JSON line with every figure, all else on stderr", async () => {
  const runs = await temporaryFolder()
  const program = cohort(["quickstart", "--json", "--steps", "3", "--max-staleness", "2", "--seed", "1", "--runDir", runs, ...small])
  expect(await program.ends()).toBe(0)
  const summary = summaryOf(program)
  expect(summary).toMatchObject({ steps: 3, stopped: "steps" })
  expect(summary.runDir).toStartWith(runs)
  expect(typeof summary["dropped"]).toBe("object")
  for (const key of ["accuracyBefore", "accuracyAfter", "samplesPerSecond", "trainedTokensPerSecond", "ageP50", "ageP95", "ageMax", "seconds", "secondsToFirstStep", "peakRssBytes"])
    expect([key, typeof summary[key], Number.isFinite(summary[key])]).toEqual([key, "number", true])
  expect(summary["ageMax"]).toBeLessThanOrEqual(2)
  expect(summary["weightSyncs"]).toHaveLength(3)
  for (const sync of summary["weightSyncs"] as { seconds: number; bytes: number }[]) expect(sync.seconds * sync.bytes).toBeGreaterThan(0)
  expect(program.err).toMatch(/step 3\/3 .*reward/)
  expect(await checkpoints(summary.runDir)).toEqual(["step-000003"])
  expect(violations(summary.runDir)).toEqual([])
}, 2 * minutes)

testRun("Ctrl-C leaves a checkpoint, a summary and 130; the run goes on from there", async () => {
  const runs = await temporaryFolder()
  const program = cohort(["quickstart", "--json", "--steps", "100000", "--runDir", runs, ...small])
  await program.sees(/step 2\/100000/)
  program.kill("SIGINT")
  expect(await program.ends()).toBe(130)
  const summary = summaryOf(program)
  expect(summary).toMatchObject({ stopped: "interrupted", accuracyAfter: null })
  expect(typeof summary["accuracyBefore"]).toBe("number")
  expect(program.err).toContain("Ctrl-C again ends at once")
  const [checkpoint] = await checkpoints(summary.runDir)
  const steps = Number(checkpoint!.slice("step-".length))
  expect(summary["steps"]).toBe(steps)
  expect(violations(summary.runDir)).toEqual([])

  const trainSeconds = async (): Promise<number> => ((await Bun.file(join(summary.runDir, "summary.json")).json()) as { trainSeconds: number }).trainSeconds
  const secondsBefore = await trainSeconds()
  const resumed = cohort(["train", "--resume", summary.runDir, "--json", "--train.steps", String(steps + 2)], runs)
  expect(await resumed.ends()).toBe(0)
  // Its samples are those of both parts, and so are the seconds that they are divided by.
  expect(await trainSeconds()).toBeGreaterThan(secondsBefore)
  expect(summaryOf(resumed)).toMatchObject({ runDir: summary.runDir, steps: steps + 2, stopped: "steps" })
  expect(resumed.err).toContain(`step ${steps + 1}/${steps + 2}`)
  expect(resumed.err).not.toContain(`step ${steps}/`)
  expect(violations(summary.runDir)).toEqual([])
}, 4 * minutes)

testRun("a second Ctrl-C ends at once, the engine with it", async () => {
  const runs = await temporaryFolder()
  const program = cohort(["quickstart", "--steps", "100000", "--runDir", runs, ...small])
  await program.sees(/inference at http/)
  const below = await children(program.pid)
  expect(below.length).toBeGreaterThan(0)
  program.kill("SIGINT")
  await program.sees(/Ctrl-C again/)
  await Bun.sleep(400)
  program.kill("SIGINT")
  expect(await program.ends(3000)).toBe(130)
  await until(() => !below.some(lives), 3000, "its children are gone")
}, 2 * minutes)

testRun("a killed run leaves no engine behind, and goes on from its last checkpoint", async () => {
  const runs = await temporaryFolder()
  const program = cohort(["quickstart", "--steps", "100000", "--train.checkpointEverySteps", "2", "--runDir", runs, ...small])
  const [, runDir] = await program.sees(/run folder: (.+)\n/)
  await program.sees(/step 5\/100000/)
  const below = await children(program.pid)
  program.kill("SIGKILL")
  await program.ends()
  await until(() => !below.some(lives), 10_000, "its children are gone")
  const last = Number((await checkpoints(runDir!)).at(-1)!.slice("step-".length))
  expect(last).toBeGreaterThanOrEqual(4)

  const resumed = cohort(["train", "--resume", runDir!, "--json", "--train.steps", String(last + 2)])
  expect(await resumed.ends()).toBe(0)
  expect(summaryOf(resumed)).toMatchObject({ steps: last + 2, stopped: "steps" })
  expect(resumed.err).toContain(`step ${last + 1}/`)
  expect(violations(runDir!)).toEqual([])
}, 4 * minutes)

testRun("the example file trains from another folder", async () => {
  const runs = await temporaryFolder()
  const program = cohort(["train", join(repository, "examples/quickstart.toml"), "--json", "--train.steps", "1", "--runDir", runs, ...small], runs)
  expect(await program.ends()).toBe(0)
  expect(existsSync(join(summaryOf(program).runDir, "summary.json"))).toBe(true)
}, 2 * minutes)

test("a config with ten mistakes: all ten, exit code 2, nothing started", async () => {
  const folder = await temporaryFolder()
  const lines = ["seed = -1", "runDir = ''", "name = '/'", "[model]", "path = 1", "[data]", "sauce = 'x'", "[rollout]", "groupSize = 1", "topP = 2", "[train]", "steps = 0.5", "learningRate = 0", "[staleness]", "maxSteps = -1"]
  await Bun.write(join(folder, "ten.toml"), lines.join("\n"))
  const program = cohort(["train", "ten.toml"], folder)
  expect(await program.ends()).toBe(2)
  expect(program.out).toBe("")
  // The tenth is what `sauce` leaves missing: data.source.
  expect(program.err).toStartWith("error: 11 problems in the configuration:\n")
  for (const path of ["seed", "runDir", "name", "model.path", "data.sauce", "data.source", "rollout.groupSize", "rollout.topP", "train.steps", "train.learningRate", "staleness.maxSteps"]) expect(program.err).toContain(`\n  ${path}`)
  expect(await readdir(folder)).toEqual(["ten.toml"])
})
