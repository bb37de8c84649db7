// The same training steps on every backend and in every mode.
import { expect, test } from "bun:test"
import { memory } from "@tensorflow/tfjs-core"
import { openRuntime } from "./open.ts"
import type { TensorRuntime } from "./runtime.ts"
import type { CompileMode } from "./compile.ts"
import { libraryPath, tensorflow } from "./testing/runtime.ts"
import { tinyTrainer } from "./testing/tiny-transformer.ts"

function losses(runtime: TensorRuntime, mode: CompileMode, steps = 5): { losses: number[]; weights: Record<string, readonly number[]> } {
  const trainer = tinyTrainer(runtime, mode)
  const out = Array.from({ length: steps }, (_, i) => trainer.step(i))
  const weights = trainer.weights()
  trainer.dispose()
  return { losses: out, weights }
}

let reference: ReturnType<typeof losses>

function close(found: ReturnType<typeof losses>): void {
  for (const [i, loss] of found.losses.entries()) expect(Math.abs(loss - reference.losses[i]!)).toBeLessThan(1e-4)
  for (const [name, values] of Object.entries(reference.weights))
    for (const [i, value] of values.entries()) expect(Math.abs(found.weights[name]![i]! - value), `${name}[${i}]`).toBeLessThan(1e-4)
}

test("cpu trains a small transformer", async () => {
  const runtime = await openRuntime({ backend: "cpu" })
  reference = losses(runtime, "eager")
  expect(reference.losses[4]!).toBeLessThan(reference.losses[0]! - 0.05)
  runtime.close()
})

test("wasm takes the same steps as cpu", async () => {
  const runtime = await openRuntime({ backend: "wasm" })
  close(losses(runtime, "eager"))
  runtime.close()
})

for (const mode of ["eager", "graph", "xla"] as const)
  test.skipIf(libraryPath === undefined)(`tensorflow takes the same steps as cpu and holds nothing back, ${mode}`, async () => {
    const runtime = await tensorflow()
    const empty = { ...runtime.counters(), scope: memory().numTensors }
    const trainer = tinyTrainer(runtime, mode)
    const found = Array.from({ length: 5 }, (_, i) => trainer.step(i))
    close({ losses: found, weights: trainer.weights() })
    const after = { ...runtime.counters(), scope: memory().numTensors }
    const settledRss = (): number => {
      Bun.gc(true)
      return process.memoryUsage.rss() / 1e6
    }
    for (let i = 0; i < 10; i++) trainer.step(i)
    const rssMb = settledRss()
    for (let i = 0; i < 200; i++) trainer.step(i)
    expect({ ...runtime.counters(), scope: memory().numTensors }).toEqual(after)
    expect(settledRss() - rssMb).toBeLessThan(60)
    trainer.dispose()
    expect({ ...runtime.counters(), scope: memory().numTensors }).toEqual(empty)
    runtime.close()
  }, 60_000)

test.skipIf(libraryPath === undefined)("bf16 moments train too", async () => {
  const runtime = await tensorflow()
  const trainer = tinyTrainer(runtime, "eager", "bf16")
  for (const loss of reference.losses) expect(Math.abs(trainer.step(reference.losses.indexOf(loss)) - loss)).toBeLessThan(0.02)
  trainer.dispose()
  runtime.close()
})
