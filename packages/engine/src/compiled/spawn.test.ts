// The worker thread: answers equal those of a runner in this thread, errors keep their type, and a dead worker fails what waits.
import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CohortError } from "@cohort/errors"
import { createPolicy, type Policy, randomValues, saveModelFolder } from "@cohort/model"
import { spawnRunner } from "./spawn.ts"
import { forwardLogProbs, generate, lively, smallModels, testRuntime } from "./testing/models.ts"

// The thread's backend is not what is tested here: plain JavaScript starts fastest.
const options = { runtime: { backend: "cpu" }, slots: 3, maxModelLength: 40, dtype: "f32" } as const
let folder: string
let policy: Policy
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "cohort-spawn-"))
  const config = Object.values(smallModels)[0]!
  policy = createPolicy(await testRuntime(), config, lively(randomValues(config, 4)))
  await saveModelFolder(folder, policy)
})
afterAll(() => {
  policy.dispose()
  rmSync(folder, { recursive: true })
})

test("a runner in a worker answers as the model does, and closes once", async () => {
  const runner = await spawnRunner({ ...options, folder })
  expect(runner.info).toMatchObject({ slots: 3, maxModelLength: 40, vocabSize: 53, dtype: "f32", backend: "cpu" })
  const [sequence] = await generate(runner, [[1, 2, 3]], [1], [4, 8])
  const rows = forwardLogProbs(policy, sequence!.ids)
  sequence!.logProbs.forEach((logProb, k) => expect(Math.abs(logProb - rows[2 + k]![sequence!.ids[3 + k]!]!)).toBeLessThan(1e-4))
  const refused = await runner.loadWeights(join(folder, "absent")).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(CohortError)
  expect((refused as CohortError).code).toBe("model_invalid")
  await runner.close()
  await runner.close()
  await expect(runner.score(Int32Array.of(1, 2))).rejects.toMatchObject({ code: "inference_failed" })
})

test("a model that cannot be opened ends the worker and keeps its error", async () => {
  await expect(spawnRunner({ ...options, folder: join(folder, "absent") })).rejects.toMatchObject({ code: "model_invalid" })
})

test("an abort while it opens is heard", async () => {
  const abort = new AbortController()
  const opening = spawnRunner({ ...options, folder }, abort.signal)
  abort.abort()
  await expect(opening).rejects.toMatchObject({ code: "aborted" })
})
