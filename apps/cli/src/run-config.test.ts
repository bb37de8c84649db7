import { afterEach, beforeEach, expect, test } from "bun:test"
import { mkdir, mkdtemp, rm, utimes } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { latestRunDir, loadStoredConfig, storedProjectDir, writeLaunch } from "./run-config.ts"
import { testShell } from "./testing.ts"

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "cohort-cli-"))
})
afterEach(() => rm(dir, { recursive: true }))

async function run(name: string, seconds: number, checkpoint?: string): Promise<void> {
  await mkdir(join(dir, name, "checkpoints", checkpoint ?? ""), { recursive: true })
  await utimes(join(dir, name), seconds, seconds)
}

test("the latest run is the newest of that name with a checkpoint", async () => {
  await run("a-2026-01-01-10-00-00", 100, "step-000010")
  await run("a-2026-01-01-10-00-00-2", 200, "step-000010")
  await run("a-2026-01-02-10-00-00", 300)
  await run("a-2026-01-03-10-00-00", 350, "step-000010.123.tmp")
  await run("a-b-2026-01-04-10-00-00", 400, "step-000010")
  expect(latestRunDir(dir, "a")).toBe(join(dir, "a-2026-01-01-10-00-00-2"))
  expect(() => latestRunDir(dir, "c")).toThrow('no run named "c"')
  expect(() => latestRunDir(join(dir, "nowhere"), "a")).toThrow(expect.objectContaining({ code: "checkpoint_invalid" }))
})

test("a stored run knows where its paths start", async () => {
  expect(await storedProjectDir(dir, "/cwd")).toBe("/cwd")
  await writeLaunch(dir, { projectDir: "/somewhere" })
  expect(await storedProjectDir(dir, "/cwd")).toBe("/somewhere")
  await Bun.write(join(dir, "launch.json"), "{")
  await expect(storedProjectDir(dir, "/cwd")).rejects.toMatchObject({ code: "file_invalid" })
})

test("a folder that is no run is refused by name; flags go over the stored config", async () => {
  await expect(loadStoredConfig(testShell(), dir, [])).rejects.toThrow("has no config.json")
  await Bun.write(join(dir, "config.json"), JSON.stringify({ model: { path: "m" }, data: { source: "env-arithmetic" }, train: { steps: 5 } }))
  const { config } = await loadStoredConfig(testShell(), dir, ["--train.steps", "9"])
  expect(config.train.steps).toBe(9)
})
