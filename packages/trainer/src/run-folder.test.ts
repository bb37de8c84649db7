import { afterAll, expect, test } from "bun:test"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { isCohortError } from "@cohort/errors"
import { checkpointDir, type CheckpointState, createRunFolder, latestCheckpoint, listCheckpoints, runFolder, writeCheckpoint } from "./run-folder.ts"

const root = mkdtempSync(join(tmpdir(), "cohort-runs-"))
afterAll(() => rmSync(root, { recursive: true }))

const state = (step: number): CheckpointState => ({ format: 1, step, cursor: { next: step }, samplesTrained: 0, trainedTokens: 0, trainSeconds: 0, entropy: { coefficient: 0, lastEntropy: null } })
const saveFile = async (dir: string): Promise<void> => void writeFileSync(join(dir, "model.safetensors"), "w")
const errorOf = (body: () => unknown): { code: string; message: string } => {
  try {
    body()
  } catch (error) {
    if (isCohortError(error)) return error
    throw error
  }
  throw new Error("nothing was thrown")
}

test("two runs of one second get folders of their own", () => {
  const date = new Date("2026-01-02T03:04:05Z")
  const [first, second] = [createRunFolder(join(root, "a"), "demo", date), createRunFolder(join(root, "a"), "demo", date)]
  expect([first.id, second.id]).toEqual(["demo-2026-01-02-03-04-05", "demo-2026-01-02-03-04-05-2"])
})

test("the newest complete checkpoint is the one to resume from; a cut-off one does not count", async () => {
  const folder = createRunFolder(join(root, "b"), "demo", new Date(0))
  for (const step of [5, 10]) await writeCheckpoint(folder, state(step), 3, saveFile)
  mkdirSync(checkpointDir(folder, 15))
  expect(latestCheckpoint(folder).state).toEqual(state(10))
})

test("only the newest checkpoints are kept", async () => {
  const folder = createRunFolder(join(root, "c"), "demo", new Date(0))
  for (const step of [1, 2, 3, 4]) await writeCheckpoint(folder, state(step), 2, saveFile)
  expect(listCheckpoints(folder).map(({ step }) => step)).toEqual([3, 4])
})

test("a save that fails leaves the checkpoints as they were, and no rest", async () => {
  const folder = createRunFolder(join(root, "d"), "demo", new Date(0))
  await writeCheckpoint(folder, state(1), 3, saveFile)
  const full = Object.assign(new Error("no space left on device"), { code: "ENOSPC" })
  const failure = await writeCheckpoint(folder, state(2), 3, () => Promise.reject(full)).catch((error: unknown) => error)
  expect(isCohortError(failure) && failure.code).toBe("disk_full")
  expect(readdirSync(folder.checkpointsDir)).toEqual(["step-000001"])
})

test("a checkpoint of the same step replaces the old one", async () => {
  const folder = createRunFolder(join(root, "e"), "demo", new Date(0))
  await writeCheckpoint(folder, state(1), 3, async (dir) => writeFileSync(join(dir, "old"), ""))
  await writeCheckpoint(folder, state(1), 3, saveFile)
  expect(existsSync(join(checkpointDir(folder, 1), "old"))).toBe(false)
})

test("a folder without checkpoints says so, and a damaged state names its file", async () => {
  const folder = createRunFolder(join(root, "f"), "demo", new Date(0))
  expect(errorOf(() => latestCheckpoint(runFolder(join(root, "nowhere")))).code).toBe("checkpoint_invalid")
  await writeCheckpoint(folder, state(7), 3, saveFile)
  writeFileSync(join(checkpointDir(folder, 7), "state.json"), "{")
  expect(errorOf(() => latestCheckpoint(folder)).message).toContain("step-000007/state.json")
})
