import { expect, test } from "bun:test"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { chooseForm, formBySize } from "./form.ts"
import type { RunnerModel } from "./model.ts"
import { libraryPath, smallModels, testRuntime } from "./testing/models.ts"
import { createPolicy, type Policy, randomValues } from "@cohort/model"
import { createRunnerModel } from "./model.ts"
import { DType } from "@cohort/tensor"

const shape = { rows: 2, length: 16, columns: 4, variant: { truncates: false, penalizes: false, top: 0 } }

test("size decides for small and for large models, and where nobody may measure", () => {
  expect(formBySize(800_000)).toBe("loop")
  expect(formBySize(135_000_000)).toBeUndefined()
  expect(formBySize(1_000_000_000)).toBe("mixed")
  const sized = (parameters: number) => ({ policy: { parameters } as Policy }) as RunnerModel
  expect(chooseForm(sized(10_000_000), shape, { packed: false, lanes: 1, memory: undefined })).toBe("loop")
  expect(chooseForm(sized(135_000_000), shape, { packed: false, lanes: 1, memory: undefined })).toBe("mixed")
})

test.skipIf(libraryPath === undefined)("between, both are timed once and the answer is kept", async () => {
  const runtime = await testRuntime()
  const folder = mkdtempSync(join(tmpdir(), "cohort-form-"))
  const path = join(folder, "deeper", "forms.json")
  const policy = createPolicy(runtime, Object.values(smallModels)[0]!, randomValues(Object.values(smallModels)[0]!, 1))
  const model = createRunnerModel(runtime, runtime.raw!, { ...policy, parameters: 100_000_000 }, DType.float32, 32)
  try {
    const form = chooseForm(model, shape, { packed: false, lanes: 1, memory: path })
    const [key, kept] = Object.entries(JSON.parse(readFileSync(path, "utf8")) as Record<string, string>)[0]!
    expect(kept).toBe(form)
    expect(key).toContain("2 rows")
    const other = form === "loop" ? "mixed" : "loop"
    writeFileSync(path, JSON.stringify({ [key]: other, damaged: 3 }))
    expect(chooseForm(model, shape, { packed: false, lanes: 1, memory: path })).toBe(other)
  } finally {
    policy.dispose()
    rmSync(folder, { recursive: true })
  }
}, 30_000)
