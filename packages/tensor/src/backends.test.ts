// The same training steps on every backend and in every mode.
import { describe, expect, test } from "bun:test"
import { grads, matMul, mean, memory, softmax, square, sub, type Tensor, tensor, type Tensor2D } from "@tensorflow/tfjs-core"
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
  describe.skipIf(libraryPath === undefined)(`tensorflow, ${mode}`, () => {
    test("takes the same steps as cpu and leaves nothing", async () => {
      const runtime = await tensorflow()
      const empty = { ...runtime.counters(), scope: memory().numTensors }
      close(losses(runtime, mode))
      expect({ ...runtime.counters(), scope: memory().numTensors }).toEqual(empty)
      runtime.close()
    }, 60_000)

    test("holds nothing back over 200 steps of a training loop", async () => {
      const runtime = await tensorflow()
      const empty = { ...runtime.counters(), scope: memory().numTensors }
      const weight = runtime.variable("flat.weight", [64, 64], "f32", new Float32Array(64 * 64).fill(0.01))
      const table = tensor(new Float32Array(64 * 80).fill(0.5), [80, 64])
      const train = runtime.compile((x) => {
        const old = weight.value()
        const [gradient] = grads((w: Tensor) => mean(square(softmax(matMul(matMul(x as Tensor2D, table as Tensor2D), w as Tensor2D)))))([old])
        weight.assign(sub(old, gradient!))
        return [mean(gradient!)]
      }, { name: "flat", mode })
      const host = new Float32Array(80 * 80).fill(0.1)
      const step = (): void => {
        const x = tensor(host, [80, 80])
        const [out] = train(x)
        out!.dataSync()
        for (const each of [x, out!]) each.dispose()
      }
      const settledRssMb = (): number => {
        Bun.gc(true)
        return process.memoryUsage.rss() / 1e6
      }
      for (let i = 0; i < 20; i++) step()
      const [after, rssMb] = [{ ...runtime.counters(), scope: memory().numTensors }, settledRssMb()]
      for (let i = 0; i < 200; i++) step()
      expect({ ...runtime.counters(), scope: memory().numTensors }).toEqual(after)
      expect(settledRssMb() - rssMb).toBeLessThan(40)
      for (const each of [train, weight, table]) each.dispose()
      expect({ ...runtime.counters(), scope: memory().numTensors }).toEqual(empty)
      runtime.close()
    }, 30_000)
  })

test.skipIf(libraryPath === undefined)("bf16 moments train too", async () => {
  const runtime = await tensorflow()
  const trainer = tinyTrainer(runtime, "eager", "bf16")
  for (const loss of reference.losses) expect(Math.abs(trainer.step(reference.losses.indexOf(loss)) - loss)).toBeLessThan(0.02)
  trainer.dispose()
  runtime.close()
})
