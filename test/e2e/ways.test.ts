// The ways to run the one loop: on-policy, asynchronous, colocated, with a reference policy and corrections. Short runs of the real parts.
import { expect } from "bun:test"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { openLedgerReader } from "@cohort/ledger"
import { faultyRun, type Patch, summaryOf, temporaryFolder, testRun } from "../faults/faulty-run.ts"

const timeoutMs = 240_000

async function finish(patch: Patch): Promise<{ readonly steps: readonly Readonly<Record<string, number>>[]; readonly dir: string }> {
  const run = await faultyRun({ patch, runDir: await temporaryFolder() })
  await summaryOf(run)
  const steps = readFileSync(join(run.dir, "metrics.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line) as Record<string, number>)
  using ledger = openLedgerReader(join(run.dir, "events.db"))
  expect(ledger.audit({ ended: true })).toMatchObject({ ok: true, violations: [], missing: [] })
  return { steps, dir: run.dir }
}

testRun("max staleness 0 is on-policy: every trained token is of the version being trained, and engine and trainer agree on its log-prob", async () => {
  const { steps } = await finish({ staleness: { maxSteps: 0 } })
  expect(steps.map((step) => step["age/max"])).toEqual([0, 0, 0, 0])
  for (const step of steps) expect(step["kl/behavior"]!).toBeLessThan(1e-6)
}, timeoutMs)

testRun("asynchronous: later steps train on older samples, never past the bound", async () => {
  const { steps } = await finish({ staleness: { maxSteps: 2 }, train: { steps: 6 } })
  const ages = steps.map((step) => step["age/max"]!)
  expect(Math.max(...ages)).toBeGreaterThan(0)
  expect(Math.max(...ages)).toBeLessThanOrEqual(2)
}, timeoutMs)

testRun("colocated: the engine computes on the trainer's weights, nothing travels, and each token has one version", async () => {
  const { steps } = await finish({ staleness: { maxSteps: 0 }, inference: { colocated: true } })
  expect(steps.map((step) => step["age/max"])).toEqual([0, 0, 0, 0])
  for (const step of steps) expect(step["kl/behavior"]!).toBeLessThan(1e-6)
}, timeoutMs)

testRun("a KL to the starting policy is nothing at the first step and something once the policy has moved", async () => {
  const { steps } = await finish({ objective: { klCoefficient: 0.05, correction: "token_truncate" }, train: { steps: 3, learningRate: 1e-3 }, staleness: { maxSteps: 0 } })
  expect(Math.abs(steps[0]!["kl/reference"]!)).toBeLessThan(1e-6)
  expect(steps[2]!["kl/reference"]!).toBeGreaterThan(1e-6)
}, timeoutMs)

testRun("a KL taken off the rewards, to a reference that follows, on the most uncertain half of the tokens", async () => {
  const objective = { klCoefficient: 0.05, klIn: "reward", klEstimator: "k1", reference: "moving", referenceEverySteps: 2, referenceMix: 1, topEntropyShare: 0.5 } as const
  const { steps, dir } = await finish({ objective, train: { steps: 3, learningRate: 1e-3 }, staleness: { maxSteps: 0 } })
  expect(Math.abs(steps[0]!["kl/completion"]!)).toBeLessThan(1e-4)
  expect(Math.abs(steps[1]!["kl/completion"]!)).toBeGreaterThan(1e-4)
  // After the second step the reference is the policy.
  expect(Math.abs(steps[2]!["kl/completion"]!)).toBeLessThan(1e-4)
  for (const step of steps) expect(Math.abs(step["masked"]! - 0.5)).toBeLessThan(0.05)
  expect(existsSync(join(dir, "checkpoints/step-000003/reference/model.safetensors"))).toBe(true)
}, timeoutMs)

testRun("an adapter alone is trained; the engine gets the weights with it merged in, and agrees with the trainer on every log-prob", async () => {
  const { steps, dir } = await finish({ model: { lora: { rank: 4 } }, objective: { klCoefficient: 0.01 }, train: { steps: 3, learningRate: 1e-2 }, staleness: { maxSteps: 0 } })
  for (const step of steps) expect(step["kl/behavior"]!).toBeLessThan(1e-5)
  expect(Math.abs(steps[0]!["kl/reference"]!)).toBeLessThan(1e-6)
  expect(steps[2]!["kl/reference"]!).toBeGreaterThan(1e-5)
  expect(readdirSync(join(dir, "checkpoints/step-000003/adapter")).toSorted()).toEqual(["adapter_config.json", "adapter_model.safetensors"])
}, timeoutMs)

testRun("colocated with an adapter: the engine computes on the merged weights of each step", async () => {
  const { steps } = await finish({ model: { lora: { rank: 4 } }, train: { steps: 3, learningRate: 1e-2 }, staleness: { maxSteps: 0 }, inference: { colocated: true } })
  for (const step of steps) expect(step["kl/behavior"]!).toBeLessThan(1e-5)
}, timeoutMs)
