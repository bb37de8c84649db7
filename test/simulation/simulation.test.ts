import { availableParallelism } from "node:os"
import { describe, expect, test } from "bun:test"
import { type Bug, bugs } from "./bug.ts"
import { replayLine, simulateMany } from "./report.ts"
import { simulate } from "./simulate.ts"

const { SIM_SEED_START: first = "0", SIM_SEEDS: seeds = process.env.CI === undefined ? "300" : "10000" } = process.env
const count = Number(seeds)

test(`${count} seeds from ${first}: nothing lost or trained twice, nothing too old, no deadlock, no prompt starved`, async () => {
  const report = await simulateMany({ first: Number(first), count, processes: Math.min(count, availableParallelism()) })
  const told = report.failed.slice(0, 10).map(({ seed, problems }) => `${replayLine(seed)}\n  ${problems.join("\n  ")}`)
  expect(told).toEqual([])
  expect(report.seeds).toBe(count)
  process.stdout.write(
    `${report.seeds} seeds in ${report.seconds.toFixed(1)} s (${report.cpuSeconds.toFixed(1)} s of processor time): ${report.finished} finished in ${report.lives} lives, ${report.crashes} crashes, ${report.failures} typed failures; ` +
      `trained against ended, paced and undisturbed: slow prompts ${report.bias.undisturbed.slow.toFixed(3)}, length ${report.bias.undisturbed.length.toFixed(3)}; paced: slow prompts ${report.bias.paced.slow.toFixed(3)}, length ${report.bias.paced.length.toFixed(3)}; ` +
      `drop: ${report.bias.drop.slow.toFixed(3)}, ${report.bias.drop.length.toFixed(3)}; oversampled: ${report.bias.oversampled.slow.toFixed(3)}, ${report.bias.oversampled.length.toFixed(3)}; ` +
      `${report.surplus} groups cut off as surplus, ${report.replaced} replaced\n`,
  )
  // Small samples are noisy: what single seeds must hold is checked in each of them.
  if (count < 2_000) return
  expect(report.finished / report.seeds).toBeGreaterThan(0.98)
  expect(Math.abs(report.bias.undisturbed.slow - 1)).toBeLessThan(0.02)
  expect(Math.abs(report.bias.undisturbed.length - 1)).toBeLessThan(0.02)
  // Rollouts of many turns meet more of the faults, which no pacing can give back; those of one request must not be told apart.
  expect(Math.abs(report.bias.paced.slow - 1)).toBeLessThan(0.1)
  expect(Math.abs(report.bias.paced.length - 1)).toBeLessThan(0.02)
  // What pacing is for: dropping what came too late trains slow prompts more rarely than they are drawn.
  expect(report.bias.drop.slow).toBeLessThan(0.95)
  // Oversampling takes whoever is first: slow prompts come less often, as the docs say, and within a prompt lengths stay as they were.
  expect(report.surplus).toBeGreaterThan(0)
  expect(report.bias.oversampled.slow).toBeLessThan(0.95)
  expect(report.bias.oversampled.slow).toBeGreaterThan(0.5)
  expect(Math.abs(report.bias.oversampled.length - 1)).toBeLessThan(0.05)
  expect(report.replaced).toBeGreaterThan(0)
}, 600_000)

test("a seed says the same each time", async () => {
  for (const seed of [11, 17, 43]) expect(await simulate(seed)).toEqual(await simulate(seed))
})

describe("published faults, put back in, are caught", () => {
  const symptoms: Readonly<Record<Bug, RegExp>> = {
    stuckRollout: /no progress/,
    skippedTarget: /is lost although the run ended|was never admitted/,
    pinnedCursor: /was trained in step \d+ and again in step \d+/,
  }
  for (const bug of Object.keys(symptoms) as Bug[])
    test(bugs[bug], async () => {
      const problems: string[] = []
      for (let seed = 0; seed < 400 && !problems.some((problem) => symptoms[bug].test(problem)); seed++) problems.push(...(await simulate(seed, bug)).problems)
      expect(problems.find((problem) => symptoms[bug].test(problem))).toBeDefined()
    }, 60_000)
})
