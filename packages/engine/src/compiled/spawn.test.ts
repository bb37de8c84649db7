// The worker thread: answers equal those of a runner in this thread, errors keep their type, and a dead worker fails what waits.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CohortError } from "@cohort/errors"
import { createPolicy, type Policy, randomValues, saveModelFolder } from "@cohort/model"
import type { ModelRunner } from "../runner.ts"
import { exposeRunner, remoteRunner } from "./remote.ts"
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

/** What a promise rejects with. Bun's `rejects` blocks the loop that a message needs to arrive. */
const reasonOf = (promise: Promise<unknown>): Promise<unknown> => promise.then(() => undefined, (reason: unknown) => reason)

describe("over a message channel", () => {
  const info = { slots: 1, maxModelLength: 8, vocabSize: 8, chunkSizes: [1], parameters: 0, dtype: "f32", backend: "none" }

  test("calls are answered one after the other, arrays are moved, errors keep their code and hint", async () => {
    const { port1, port2 } = new MessageChannel()
    let active = 0
    let most = 0
    const logProbs = new Float32Array(4)
    const serial = async (): Promise<void> => {
      most = Math.max(most, ++active)
      await Bun.sleep(2)
      active--
    }
    const refuse = () => Promise.reject(new CohortError("tensor_failed", "no", { hint: "try" }))
    const runner: ModelRunner = { info, prefill: serial, decode: refuse, score: async () => (await serial(), logProbs), loadWeights: serial, close: serial }
    const stop = exposeRunner(port1 as never, runner)
    const remote = remoteRunner(port2 as never, info)
    port1.start()
    port2.start()
    const [scores] = await Promise.all([remote.score(Int32Array.of(1)), remote.prefill([]), remote.loadWeights("x")])
    expect(scores.length).toBe(4)
    expect(logProbs.length).toBe(0)
    expect(most).toBe(1)
    expect(await reasonOf(remote.decode([], 1, 0))).toMatchObject({ code: "tensor_failed", message: "no", hint: "try" })
    await remote.close()
    stop()
    port1.close()
    port2.close()
  })

  test("when the other side is gone, what waits and what comes fails", async () => {
    const { port1, port2 } = new MessageChannel()
    const remote = remoteRunner(port2 as never, info)
    const waiting = reasonOf(remote.score(Int32Array.of(1)))
    remote.fail(new CohortError("worker_failed", "gone"))
    expect(await waiting).toMatchObject({ code: "worker_failed" })
    expect(await reasonOf(remote.prefill([]))).toMatchObject({ code: "worker_failed" })
    port1.close()
    port2.close()
  })
})
