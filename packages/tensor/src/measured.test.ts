import { afterAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { recallMeasured, rememberMeasured } from "./measured.ts"

const folder = mkdtempSync(join(tmpdir(), "cohort-measured-"))
afterAll(() => rmSync(folder, { recursive: true }))

test("answers stay side by side, and only those that are asked for come back", () => {
  const path = join(folder, "deeper", "forms.json")
  expect(recallMeasured(path, "a", ["fast"])).toBeUndefined()
  rememberMeasured(path, "a", "fast")
  rememberMeasured(path, "b", "slow")
  expect([recallMeasured(path, "a", ["fast", "slow"]), recallMeasured(path, "b", ["fast", "slow"])]).toEqual(["fast", "slow"])
  expect(recallMeasured(path, "b", ["fast"])).toBeUndefined()
})

test("a damaged file and one that cannot be written cost nothing", () => {
  const damaged = join(folder, "damaged.json")
  writeFileSync(damaged, "{")
  expect(recallMeasured(damaged, "a", ["fast"])).toBeUndefined()
  rememberMeasured(damaged, "a", "fast")
  expect(recallMeasured(damaged, "a", ["fast"])).toBe("fast")
  rememberMeasured(join(damaged, "below", "forms.json"), "a", "fast")
})
