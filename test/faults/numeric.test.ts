// Weights that blow up: skipped steps are said, then the run ends as `numeric`; nothing trains on what is not a number.
import { expect } from "bun:test"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { errorOf, faultyRun, readFolder, testRun } from "./faulty-run.ts"

const minute = 60_000
const explosive = { steps: 50, learningRate: 1e30 }

testRun("gradients that are not finite: skipped with a warning each, their groups dropped, then numeric", async () => {
  // The servers keep the starting weights, so that it is the trainer that meets the numbers.
  const run = await faultyRun({ patch: { train: explosive, transfer: { kind: "none" }, staleness: { maxSteps: 20 } } })
  const error = await errorOf(run)
  expect(error.code).toBe("numeric")
  expect(error.hint).toContain("train.learningRate")
  expect(run.warnings.filter((message) => message.includes("the gradient is not finite"))).toHaveLength(3)
  const left = readFolder(run.dir, false)
  expect(left.failure?.code).toBe("numeric")
  expect(left.drops["non_finite_gradient"]).toBe(12)
  expect(existsSync(join(run.dir, "summary.json"))).toBe(false)
}, minute)
