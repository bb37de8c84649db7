// A model named by its place on the hub: fetched, trained, resumed at the commit it began with. The hub is one on loopback.
import { expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { commit, testHub } from "@cohort/hub/testing"
import { cohort, repository, temporaryFolder, testRun } from "./program.ts"

const source = join(repository, "models/arithmetic-1m")
const files = Object.fromEntries(readdirSync(source).map((name) => [name, new Uint8Array(readFileSync(join(source, name)))]))
const config = `
[model]
path = "org/arithmetic"
[data]
source = "env-arithmetic"
[[rewards]]
use = "reward-math"
[rollout]
groupSize = 4
maxCompletionTokens = 8
[train]
steps = 2
completionsPerStep = 16
[eval]
prompts = 8
`

testRun("a run on a model of the hub, and its resumption without a network", async () => {
  using hub = testHub({ "models/org/arithmetic": files })
  const folder = await temporaryFolder()
  await Bun.write(join(folder, "run.toml"), config)
  const env = { HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: join(folder, "hub") }
  const program = cohort(["train", "run.toml", "--json"], folder, env)
  expect([await program.ends(120_000), program.err]).toEqual([0, expect.stringContaining("step 2/2")])
  expect(program.out.trim().split("\n")).toHaveLength(1)
  const { runDir } = JSON.parse(program.out) as { readonly runDir: string }
  expect(await Bun.file(join(runDir, "model.json")).json()).toEqual({ path: "org/arithmetic", commit })
  const asked = hub.requests.length
  const resumed = cohort(["train", "--resume", runDir, "--train.steps", "3", "--json"], folder, { ...env, HF_HUB_OFFLINE: "1" })
  expect([await resumed.ends(120_000), resumed.err]).toEqual([0, expect.stringContaining("step 3/3")])
  expect(hub.requests).toHaveLength(asked)
}, 240_000)

test("a mistyped folder that looks like a name of the hub: one sentence about both, before anything starts", async () => {
  using hub = testHub({})
  const folder = await temporaryFolder()
  await Bun.write(join(folder, "run.toml"), config)
  const env = { HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: join(folder, "hub") }
  for (const args of [["train", "run.toml"], ["serve", "org/arithmetic"], ["config", "check", "run.toml"]]) {
    const program = cohort(args, folder, env)
    expect([args[0], await program.ends(30_000)]).toEqual([args[0], args[0] === "config" ? 2 : 1])
    expect(program.err).toContain(`there is no folder ${join(folder, "org/arithmetic")}, and on the hub: model org/arithmetic at main: the hub answered 404: Repository not found`)
    expect(program.err).toContain("HF_TOKEN")
  }
  const offline = cohort(["train", "run.toml"], folder, { ...env, HF_HUB_OFFLINE: "1" })
  expect(await offline.ends(30_000)).toBe(1)
  expect(offline.err).toContain("model org/arithmetic at main is not in the cache")
}, 120_000)
