// `cohort serve` as a process: ready line, answers, signals, its parent's death.
import { expect } from "bun:test"
import { join } from "node:path"
import { inferenceServer, waitUntilReady } from "@cohort/inference"
import { cohort, repository, testRun, until } from "./program.ts"

const model = join(repository, "models/arithmetic-1m")
const minutes = 60_000

async function ready(args: readonly string[] = []) {
  const program = cohort(["serve", model, "--port", "0", "--json-ready", "--slots", "4", ...args])
  const [line] = await program.sees(/\{"ready":true.*\}\n/)
  return { program, ...(JSON.parse(line) as { url: string; pid: number }) }
}

testRun("serves what it says, and SIGTERM ends it with 0", async () => {
  const { program, url, pid } = await ready()
  expect(pid).toBe(program.pid)
  const server = inferenceServer({ kind: "embedded", url, model: "policy" })
  await waitUntilReady(server, { timeoutMs: 10_000 })
  const [generation] = await server.generate({
    promptIds: Int32Array.of(1, 2, 3),
    n: 1,
    sampling: { maxTokens: 4, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [] },
    signal: AbortSignal.timeout(10_000),
  })
  expect(generation!.logProbs).toHaveLength(generation!.tokenIds.length)
  await server.close()
  const taken = cohort(["serve", model, "--port", new URL(url).port])
  expect(await taken.ends()).toBe(1)
  expect(taken.err).toContain(`Port ${new URL(url).port} on 127.0.0.1 is already in use`)
  program.kill("SIGTERM")
  expect(await program.ends(10_000)).toBe(0)
  expect(program.out.trim().split("\n")).toHaveLength(1)
}, 2 * minutes)

testRun("ends when the process that asked for it is gone", async () => {
  const asker = Bun.spawn(["sleep", "600"])
  const { program, url } = await ready(["--parent-pid", String(asker.pid)])
  asker.kill("SIGKILL")
  expect(await program.ends(10_000)).toBe(0)
  await until(() => fetch(`${url}/health`).then(() => false, () => true), 1000, "the port is closed")
}, 2 * minutes)
