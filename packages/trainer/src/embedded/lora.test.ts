import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { collate } from "@cohort/batching"
import { isCohortError } from "@cohort/errors"
import { openAdapter, readModelConfig } from "@cohort/model"
import type { TensorRuntime } from "@cohort/tensor"
import { library, openBackend, openTiny, parametersOf, tinyConfig, tinyFolder, tinyGroup, trainOn } from "../../test/tiny-run.ts"

const lora = { rank: 2, alpha: 8, targets: ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], seed: 1 } as const
const groups = (steps: number) => Array.from({ length: 2 * steps }, (_, at) => ({ ...tinyGroup("same", at % 2, at % 2 === 0 ? [1, 0] : [0, 1]), id: `g${at}` }))
const batch = collate(tinyGroup("same", 0, [1, 0]).samples, { rows: 2, length: 8 })

function near(values: Float32Array, expected: Float32Array, digits: number): void {
  expect(values.length).toBe(expected.length)
  for (const [at, value] of values.entries()) expect(value).toBeCloseTo(expected[at]!, digits)
}

describe.skipIf(library.status !== "found")("an adapter in the backend", () => {
  let tiny: Awaited<ReturnType<typeof tinyFolder>>
  beforeAll(async () => void (tiny = await tinyFolder()))
  afterAll(() => tiny.remove())

  /** A runtime that counts the float32 values of its variables. */
  async function counting(): Promise<{ readonly runtime: TensorRuntime; readonly held: () => number }> {
    const runtime = await openTiny()
    let held = 0
    const variable: TensorRuntime["variable"] = (name, shape, ...rest) => {
      held += shape.reduce((size, dim) => size * dim, 1)
      return runtime.variable(name, shape, ...rest)
    }
    return { runtime: { ...runtime, variable }, held: () => held }
  }

  test("holds the weights once, and gradients and moments of the adapter alone; the reference is the adapter switched off", async () => {
    const heldBy = async (settings: Parameters<typeof openBackend>[1]) => {
      const { runtime, held } = await counting()
      const backend = await openBackend(tiny.folder, settings, runtime)
      const figures = await trainOn(backend, tinyConfig({ objective: { klCoefficient: 0.1 }, train: { steps: 2 } }), groups(2))
      const [reference] = backend.logProbs(batch, "reference", 1)
      const [now] = backend.logProbs(batch, "policy", 1)
      const sizes = { all: backend.policy.parameters, trained: backend.trained.parameters, held: held() }
      backend.close()
      return { ...sizes, reference: reference!, now: now!, figures }
    }
    const whole = await heldBy({})
    expect(whole.held).toBe(4 * whole.all + whole.all)
    const adapted = await heldBy({ lora })
    expect(adapted.trained).toBeLessThan(adapted.all / 2)
    expect(adapted.held).toBe(adapted.all + 4 * adapted.trained)
    near(adapted.reference, whole.reference, 5)
    expect(adapted.now.some((value, at) => Math.abs(value - adapted.reference[at]!) > 1e-3)).toBe(true)
    expect(Math.abs(adapted.figures[0]!["kl/reference"]!)).toBeLessThan(1e-6)
    expect(adapted.figures[1]!["kl/reference"]!).toBeGreaterThan(1e-6)
  })

  test("learns: what was rewarded becomes likelier than what was not, while the weights stay", async () => {
    const backend = await openBackend(tiny.folder, { lora })
    const start = parametersOf(backend)
    const gap = (): number => {
      const [rewarded, other] = backend.logProbs(batch, "policy", 1).map((row) => row.slice(2, 6).reduce((sum, value) => sum + value, 0))
      return rewarded! - other!
    }
    const before = gap()
    await trainOn(backend, tinyConfig({ objective: { epsilonHigh: 10, epsilonLow: 0.9 }, train: { steps: 15 } }), groups(15))
    expect(gap()).toBeGreaterThan(before + 3)
    expect(parametersOf(backend)).toEqual(start)
    backend.close()
  })

  test("a checkpoint is a whole model with the adapter merged in, PEFT's folder beside it, and a run goes on from it as if it had not ended", async () => {
    const config = tinyConfig({ train: { steps: 4 } })
    const whole = await openBackend(tiny.folder, { lora })
    await trainOn(whole, config, groups(4), 0, async (step) => (step === 2 ? whole.save(tiny.inner("half")) : undefined))
    const after = parametersOf(whole, "trained")
    const [merged] = whole.logProbs(batch, "policy", 1)
    await whole.save(tiny.inner("whole"))
    const sent = new Map([...whole.tensors()].map(({ name, bytes }) => [name, bytes.slice()]))
    whole.close()

    const resumed = await openBackend(tiny.folder, { lora: { ...lora, seed: 9 } })
    await resumed.load(tiny.inner("half"))
    await trainOn(resumed, config, groups(4).slice(4), 2)
    near(parametersOf(resumed, "trained"), after, 5)
    resumed.close()

    const plain = await openBackend(tiny.folder)
    expect(plain.names).toEqual([...sent.keys()])
    plain.close()
    const served = await openBackend(tiny.inner("whole"))
    near(served.logProbs(batch, "policy", 1)[0]!, merged!, 4)
    for (const { name, bytes } of served.tensors()) expect(bytes).toEqual(sent.get(name)!)
    served.close()

    const opened = openAdapter(tiny.inner("whole/adapter"), readModelConfig(tiny.folder))
    expect(opened.lora).toMatchObject({ rank: 2, alpha: 8, targets: [...lora.targets] })
    opened.close()
  })

  test("a checkpoint of another kind of run is refused", async () => {
    const plain = await openBackend(tiny.folder)
    await plain.save(tiny.inner("plain"))
    plain.close()
    const adapted = await openBackend(tiny.folder, { lora })
    const error: unknown = await adapted.load(tiny.inner("plain")).catch((thrown: unknown) => thrown)
    adapted.close()
    expect(isCohortError(error) && error.code).toBe("checkpoint_invalid")
  })
})
