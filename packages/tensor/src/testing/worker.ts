// A thread with a runtime of its own, for the test that two of them do not disturb each other.
import { grads, mul, sum, type Tensor, tensor } from "@tensorflow/tfjs-core"
import { parentPort } from "node:worker_threads"
import { openRuntime } from "../open.ts"

parentPort!.once("message", async ({ libraryPath, factor, steps }: { libraryPath: string; factor: number; steps: number }) => {
  const runtime = await openRuntime({ backend: "tensorflow", libraryPath, threads: 1 })
  const weight = runtime.variable("worker.weight", [3], "f32", new Float32Array([1, 1, 1]))
  const step = runtime.compile((x) => {
    const [gradient] = grads((w: Tensor) => sum(mul(mul(w, w), x!)))([weight.value()])
    weight.assign(mul(gradient!, 0.5))
    return [sum(gradient!)]
  }, { name: "worker step", mode: "graph" })
  const x = tensor([factor, factor, factor])
  for (let i = 0; i < steps; i++) step(x)[0]!.dispose()
  const values = [...(weight.data() as Float32Array)]
  step.dispose()
  weight.dispose()
  x.dispose()
  const counters = runtime.counters()
  runtime.close()
  reply({ values, counters })
})

function reply(message: object): void {
  parentPort!.postMessage(message, [])
}
