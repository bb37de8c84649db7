// Each supported architecture against PyTorch: forward, gradients and one optimizer step, within float32's reach.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import type { Policy } from "@cohort/model"
import { type BackendName, type CompileMode, findRuntime, openDefaultRuntime, type TensorRuntime } from "@cohort/tensor"
import { checkForward, evenly, norm, relative, worst } from "./compare.ts"
import { cases, openCase, readGolden, trainOnce } from "./golden.ts"

const lookup = findRuntime({ env: process.env })
const names = readdirSync(cases).toSorted()
const runs: readonly { backend: BackendName; modes: Partial<Record<CompileMode, readonly string[]>> }[] = [
  // Compiling takes seconds a case in graph mode; these three have every kind of op.
  { backend: "tensorflow", modes: { xla: names, graph: ["llama-bias-sharded", "llama3-rope", "qwen3"] } },
  { backend: "wasm", modes: { eager: names } },
  { backend: "cpu", modes: { eager: names } },
]

for (const { backend, modes } of runs)
  describe.skipIf(backend === "tensorflow" && lookup.status !== "found")(`parity with PyTorch on ${backend}`, () => {
    let runtime: TensorRuntime
    beforeAll(async () => {
      // With the cache of compiled programs, where compiling is most of this test's time.
      runtime = await openDefaultRuntime({ env: process.env, backend, signal: AbortSignal.timeout(60_000), threads: 2, allowInstall: false })
    })
    afterAll(() => runtime.close())

    for (const [mode, name] of Object.entries(modes).flatMap(([mode, list]) => list.map((name) => [mode as CompileMode, name] as const)))
      test(`${name}, ${mode}`, () => {
        const golden = readGolden(name)
        const policy = openCase(runtime, join(cases, name))
        const before = new Map(partNames(policy).map((part) => [part, policy.read(part).slice()]))
        const computed = trainOnce(runtime, policy, golden, mode)
        checkForward(computed, golden)
        for (const [part, wanted] of Object.entries(golden.gradientNorms)) expect(relative(norm(computed.gradients.get(part)!), wanted), part).toBeLessThan(1e-4)
        expect(relative(computed.gradientNorm, golden.gradientNorm)).toBeLessThan(1e-4)
        for (const [part, wanted] of Object.entries(golden.after)) {
          const after = policy.read(part)
          expect(worst(evenly(after), wanted, 0.01), part).toBeLessThan(1e-4)
          // The step itself is a thousandth of a value, so it is compared on its own too.
          const update = norm(after.map((value, i) => value - before.get(part)![i]!))
          expect(relative(update, golden.updateNorms[part]!), `update of ${part}`).toBeLessThan(2e-3)
        }
        policy.dispose()
      }, 120_000)
  })

function partNames(policy: Policy): string[] {
  return policy.specs.flatMap((spec) => spec.parts.map((part) => part.checkpointName))
}
