import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { isCohortError } from "@cohort/errors"
import { openFolderValues, readModelConfig } from "@cohort/model"
import { library, openBackend, parametersOf, tinyConfig, tinyFolder, tinyGroup, trainOn } from "../test/tiny-run.ts"

const steps = 5
const config = tinyConfig({ objective: { klCoefficient: 0.3, reference: "moving", referenceEverySteps: 2, referenceMix: 0.75 }, train: { steps } })
/** Two groups a step. */
const groups = Array.from({ length: 2 * steps }, (_, at) => tinyGroup(`g${at}`, at, at % 3 === 0 ? [1, 0] : [0, 1]))
const embedding = "model.embed_tokens.weight"

/** Sums may be rounded another way from one process state to the next. */
function near(values: Float32Array, expected: Float32Array): void {
  expect(values.length).toBe(expected.length)
  for (const [at, value] of values.entries()) expect(value).toBeCloseTo(expected[at]!, 6)
}

describe.skipIf(library.status !== "found")("a moving reference", () => {
  let tiny: Awaited<ReturnType<typeof tinyFolder>>
  beforeAll(async () => void (tiny = await tinyFolder()))
  afterAll(() => tiny.remove())

  function embeddingOf(folder: string): Float32Array {
    const opened = openFolderValues(folder, readModelConfig(folder))
    const values = opened.values(embedding, []).slice()
    opened.close()
    return values
  }

  test("follows every few steps by its share; a run resumed in between equals one that was not interrupted", async () => {
    const whole = await openBackend(tiny.folder, { movingReference: true })
    const policies: Float32Array[] = []
    await trainOn(whole, config, groups, 0, async (step) => {
      policies.push(whole.policy.read(embedding).slice())
      await whole.save(tiny.inner(`step-${step}`))
    })
    const start = embeddingOf(tiny.folder)
    const references = policies.map((_, at) => embeddingOf(tiny.inner(`step-${at + 1}/reference`)))
    expect(references[0]).toEqual(start)
    const mixed = (policy: Float32Array, before: Float32Array) => before.map((value, i) => 0.75 * policy[i]! + 0.25 * value)
    const second = mixed(policies[1]!, start)
    const fourth = mixed(policies[3]!, second)
    expect(references[1]).toEqual(second)
    expect(references[2]).toEqual(second)
    expect(references[4]).toEqual(fourth)
    expect(second).not.toEqual(start)
    const expected = parametersOf(whole)
    whole.close()

    const resumed = await openBackend(tiny.folder, { movingReference: true })
    await resumed.load(tiny.inner("step-3"))
    await trainOn(resumed, config, groups.slice(6), 3)
    near(parametersOf(resumed), expected)
    await resumed.save(tiny.inner("again"))
    resumed.close()
    near(embeddingOf(tiny.inner("again/reference")), fourth)
  })

  test("what the loss pulls to is the reference that moved", async () => {
    const pull = async (reference: "start" | "moving") => {
      const backend = await openBackend(tiny.folder, { movingReference: true })
      const figures = await trainOn(backend, tinyConfig({ objective: { klCoefficient: 0.3, reference, referenceEverySteps: 1, referenceMix: 1 }, train: { steps: 2 } }), groups.slice(0, 4))
      backend.close()
      return figures[1]!["kl/reference"]!
    }
    expect(await pull("start")).toBeGreaterThan(1e-4)
    // The whole policy became the reference after the first step.
    expect(Math.abs(await pull("moving"))).toBeLessThan(1e-6)
  })

  test("a checkpoint without it is refused", async () => {
    const backend = await openBackend(tiny.folder, { movingReference: true })
    mkdirSync(tiny.inner("bare"), { recursive: true })
    await backend.save(tiny.inner("bare"))
    rmSync(join(tiny.inner("bare"), "reference"), { recursive: true })
    const error: unknown = await backend.load(tiny.inner("bare")).catch((thrown: unknown) => thrown)
    backend.close()
    expect(isCohortError(error) && error.code).toBe("checkpoint_invalid")
    expect(isCohortError(error) && error.message).toContain("reference/ is missing")
  })
})
