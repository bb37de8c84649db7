// Adapters against PyTorch: forward, gradients and one optimizer step of the adapter alone; merged, and through a folder in PEFT's layout.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createAdapter, createPolicy, initialValues, loraLayout, mergedTensors, openAdapter, type Parameters, peftConfig, type Policy, saveAdapter } from "@cohort/model"
import { isCohortError } from "@cohort/errors"
import { type CompileMode, findRuntime, openDefaultRuntime, type TensorRuntime } from "@cohort/tensor"
import { checkForward, evenly, norm, relative, worst } from "./compare.ts"
import { cases, type Golden, openCase, trainOnce } from "./golden.ts"

const adapters = join(import.meta.dir, "lora")
const names = readdirSync(adapters).toSorted()
const lookup = findRuntime({ env: process.env })

/** A Python with torch, transformers and peft. */
const python = process.env["COHORT_PARITY_PYTHON"]

interface LoraGolden extends Golden {
  readonly model: string
}

// Compiling takes seconds a case.
const runs: readonly { readonly backend: "tensorflow" | "cpu"; readonly modes: Partial<Record<CompileMode, readonly string[]>> }[] = [
  { backend: "tensorflow", modes: { xla: ["llama-all-rslora"], graph: ["qwen2-qv"] } },
  { backend: "cpu", modes: { eager: names } },
]

for (const { backend, modes } of runs)
  describe.skipIf(backend === "tensorflow" && lookup.status !== "found")(`adapters on ${backend}`, () => {
    let runtime: TensorRuntime
    const folder = mkdtempSync(join(tmpdir(), "cohort-lora-"))
    beforeAll(async () => void (runtime = await openDefaultRuntime({ env: process.env, backend, signal: AbortSignal.timeout(60_000), threads: 2, allowInstall: false })))
    afterAll(() => {
      runtime.close()
      rmSync(folder, { recursive: true })
    })

    function open(name: string): { readonly golden: LoraGolden; readonly policy: Policy; readonly adapter: Parameters; readonly lora: ReturnType<typeof openAdapter>["lora"] } {
      const golden = JSON.parse(readFileSync(join(adapters, name, "golden.json"), "utf8")) as LoraGolden
      const policy = openCase(runtime, join(cases, golden.model))
      const opened = openAdapter(join(adapters, name), policy.config)
      const adapter = createAdapter(runtime, policy.config, opened.lora, opened.values)
      opened.close()
      return { golden, policy, adapter, lora: opened.lora }
    }
    const partNames = (parameters: Parameters): string[] => parameters.specs.flatMap((spec) => spec.parts.map((part) => part.checkpointName))

    for (const [mode, name] of Object.entries(modes).flatMap(([mode, list]) => list.map((name) => [mode as CompileMode, name] as const)))
      test(`${name}, ${mode}: value, gradients and one step are PyTorch's, and the weights beside it stay`, () => {
        const { golden, policy, adapter, lora } = open(name)
        const before = new Map(partNames(adapter).map((part) => [part, adapter.read(part).slice()]))
        const frozen = policy.variables.map((variable) => variable.data().slice())
        const computed = trainOnce(runtime, policy, golden, mode, { parameters: adapter, lora })
        checkForward(computed, golden)
        expect(partNames(adapter).toSorted()).toEqual(Object.keys(golden.gradientNorms).toSorted())
        for (const [part, wanted] of Object.entries(golden.gradientNorms)) expect(relative(norm(computed.gradients.get(part)!), wanted), part).toBeLessThan(1e-4)
        expect(relative(computed.gradientNorm, golden.gradientNorm)).toBeLessThan(1e-4)
        for (const [part, wanted] of Object.entries(golden.after)) {
          const after = adapter.read(part)
          expect(worst(evenly(after), wanted, 0.01), part).toBeLessThan(1e-4)
          expect(relative(norm(after.map((value, i) => value - before.get(part)![i]!)), golden.updateNorms[part]!), `update of ${part}`).toBeLessThan(2e-3)
        }
        policy.variables.forEach((variable, i) => expect(variable.data()).toEqual(frozen[i]!))
        adapter.dispose()
        policy.dispose()
      }, 120_000)

    test("merged into the weights, a model without adapters computes the same", () => {
      for (const name of names) {
        const { golden, policy, adapter, lora } = open(name)
        const tensors = new Map([...mergedTensors(policy, adapter, lora)].map(({ name: part, bytes }) => [part, new Float32Array(bytes.slice().buffer)]))
        const merged = createPolicy(runtime, policy.config, (part) => tensors.get(part)!)
        checkForward(trainOnce(runtime, merged, golden, "eager"), golden)
        for (const one of [merged, adapter, policy]) one.dispose()
      }
    }, 120_000)

    test("an adapter comes back from its folder as it was, under PEFT's names", async () => {
      const { policy, adapter, lora } = open("llama-all-rslora")
      await saveAdapter(folder, adapter, lora, "org/base")
      const opened = openAdapter(folder, policy.config)
      expect(opened.lora).toEqual({ rank: 3, alpha: 6, rankStabilized: true, targets: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] })
      for (const part of partNames(adapter)) expect(opened.values(part, [])).toEqual(adapter.read(part))
      opened.close()
      expect(JSON.parse(readFileSync(join(folder, "adapter_config.json"), "utf8"))).toEqual(peftConfig(lora, "org/base"))
      adapter.dispose()
      policy.dispose()
    })

    test.skipIf(python === undefined)("PEFT loads what we saved and computes the same", async () => {
      for (const name of names) {
        const { policy, adapter, lora } = open(name)
        await saveAdapter(folder, adapter, lora, "org/base")
        const { exitCode, stderr } = Bun.spawnSync([python!, join(import.meta.dir, "make_lora.py"), "check", folder, name])
        expect(exitCode, stderr.toString()).toBe(0)
        adapter.dispose()
        policy.dispose()
      }
    }, 120_000)
  })

test("a new adapter changes nothing: B is zero, A uniform within 1 / sqrt(in), the same for a seed", async () => {
  const runtime = await openDefaultRuntime({ env: process.env, backend: "cpu", signal: AbortSignal.timeout(60_000) })
  const policy = openCase(runtime, join(cases, "llama"))
  const lora = { rank: 4, alpha: 8, targets: ["q_proj", "down_proj"] } as const
  const layout = loraLayout(policy.config, lora)
  const adapter = createAdapter(runtime, policy.config, lora, initialValues(layout, 5))
  expect(layout.map(({ name, shape }) => [name, ...shape])).toEqual([0, 1].flatMap((layer) => [[`layers.${layer}.qkv.lora_A`, 4, 32], [`layers.${layer}.qkv.lora_B`, 32, 4], [`layers.${layer}.down.lora_A`, 4, 48], [`layers.${layer}.down.lora_B`, 32, 4]]))
  const a = adapter.read("base_model.model.model.layers.1.mlp.down_proj.lora_A.weight")
  expect(a.every((value) => Math.abs(value) <= 1 / Math.sqrt(48))).toBe(true)
  // Variance of a uniform is bound^2 / 3.
  expect(norm(a) / Math.sqrt(a.length)).toBeCloseTo(1 / Math.sqrt(3 * 48), 1)
  expect(adapter.read("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight").every((value) => value === 0)).toBe(true)
  const before = [...mergedTensors(policy, adapter, lora)].map(({ bytes }) => bytes)
  const own = policy.specs.flatMap((spec) => spec.parts.map((part) => policy.read(part.checkpointName)))
  before.forEach((bytes, i) => expect(new Float32Array(bytes.slice().buffer)).toEqual(own[i]!.slice()))
  adapter.dispose()
  policy.dispose()
  runtime.close()
})

test("what is no adapter of the model is refused by name", async () => {
  const runtime = await openDefaultRuntime({ env: process.env, backend: "cpu", signal: AbortSignal.timeout(60_000) })
  const policy = openCase(runtime, join(cases, "qwen2"))
  let refused: unknown
  try {
    openAdapter(join(adapters, "llama-all-rslora"), { ...policy.config, hiddenSize: 16 })
  } catch (error) {
    refused = error
  }
  expect(isCohortError(refused) && refused.code).toBe("model_invalid")
  expect(isCohortError(refused) && refused.message).toContain("lora_A.weight is [3, 32]")
  policy.dispose()
  runtime.close()
})
