// Prompts, environments and tools as a config names them, through the run's own wiring to real episodes over a simulated server.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { resolveConfig, type RunConfigInput } from "@cohort/config"
import { createRegistry, systemHost } from "@cohort/plugin"
import { createRolloutWorker, type RolloutEvent, type SampleGroup } from "@cohort/rollout"
import { createSimulatedServer, createVirtualClock, idsOf, plainTokenizer, stopTokenId } from "@cohort/rollout/testing"
import { createCursor } from "@cohort/data"
import { episodeServices, openTasks } from "./tasks.ts"
import { openRewards } from "./open-rewards.ts"
import { workerOptions } from "./worker-options.ts"

const modelFolder = new URL("../../../models/arithmetic-1m", import.meta.url).pathname
let dir = ""

const files: Readonly<Record<string, string>> = {
  // Environments as closures, with state, a reward of their own and tools out of methods.
  "worlds.ts": `
    import { methodsAsTools } from "@cohort/plugin"
    class Counter {
      count = 0
      tools = methodsAsTools(this, { up: { description: "Counts up." } })
      reset(row) { return " from " + (row.from ?? 0) }
      up() { return ++this.count }
      score() { return this.count }
      close() { globalThis.closedCounters = (globalThis.closedCounters ?? 0) + 1 }
    }
    export const counter = () => new Counter()
    export const echo = () => ({ reset() {}, respond: ({ text, turn }) => (turn === 0 ? { messages: [{ role: "user", content: "you said " + text }] } : { done: true }), score: () => 1 })
    export const slow = () => ({ reset() {}, tools: { wait: { description: "Waits.", run: () => new Promise(() => {}) } } })
    export const stuck = () => ({ reset: () => new Promise(() => {}) })
    export const author = () => ({ reset: () => "made up by the environment", score: () => 1 })
  `,
  "tools.ts": `
    export default { double: { description: "Doubles x.", run: ({ x }) => 2 * x }, later: { description: "Takes its time.", run: async ({ x }) => { await null; return { later: x } } } }
    export const shout = { description: "Upper case.", run: ({ text }) => text.toUpperCase() }
    export const up = { description: "A run's tool of the same name.", run: () => "the run's" }
    export const hang = { description: "Never answers.", run: () => new Promise(() => {}) }
  `,
  "plain.ts": "export default (rollout) => rollout.completion.length",
  "mixed.jsonl": [{ prompt: "a", environment: "counter", from: 5 }, { prompt: "b", environment: "echo" }, { prompt: "c" }].map((row) => JSON.stringify(row)).join("\n"),
  "wrong.jsonl": [{ prompt: "a", environment: "counter" }, { id: "1", prompt: "b", environment: "conuter" }].map((row) => JSON.stringify({ id: "0", ...row })).join("\n"),
  "plain.jsonl": JSON.stringify({ prompt: "hi" }),
  "empty.jsonl": JSON.stringify({ level: 3 }),
}

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "cohort-tasks-"))
  await mkdir(join(dir, "node_modules/@cohort"), { recursive: true })
  await Bun.$`ln -s ${join(import.meta.dir, "../../plugin")} ${join(dir, "node_modules/@cohort/plugin")}`.quiet()
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text)
})
afterAll(() => rm(dir, { recursive: true, force: true }))

/** Opens what the config names and runs groups of it: the model says `words[turn]`. */
async function runOf(settings: Pick<RunConfigInput, "environment" | "environments" | "tools" | "rewards" | "rollout"> & { readonly source: string }, words: readonly string[] = ["fine"]) {
  const { source, ...rest } = settings
  const config = resolveConfig({ model: { path: "m" }, data: { source, shuffle: false }, rewards: ["./plain.ts"], rollout: { groupSize: 2 }, train: { completionsPerStep: 2 }, ...rest })
  const options = { config, registry: createRegistry(systemHost()), projectDir: dir, env: {} }
  const setup = { signal: new AbortController().signal, log: () => undefined, random: () => 0.5, projectDir: dir }
  const tasks = await openTasks(options, setup)
  const rewards = await openRewards(options, setup)
  const clock = createVirtualClock()
  const prompts: string[] = []
  const server = createSimulatedServer({
    clock, seed: 1,
    complete(request) {
      const prompt = String.fromCharCode(...request.promptIds)
      prompts.push(prompt)
      return { tokenIds: [...idsOf(words[prompt.split("<assistant>").length - 2] ?? "done"), stopTokenId] }
    },
  })
  const services = { ...episodeServices(config, modelFolder, server, 4096, () => undefined, tasks.tools), clock, tokenizer: plainTokenizer }
  const events: RolloutEvent[] = []
  const cursor = createCursor(tasks.train, { seed: 0, shuffle: false })
  const worker = createRolloutWorker(workerOptions(config, {
    services, tasks, rewards: rewards.entries, slots: 16, startVersion: 0, throttle: { maxAhead: Number.POSITIVE_INFINITY },
    emit: (event) => events.push(event), nextPrompt: () => cursor.next(), onGiveBack: () => undefined,
  }))
  const iterator = worker.samples[Symbol.asyncIterator]()
  return {
    tasks, prompts, events,
    async groups(count: number): Promise<readonly SampleGroup[]> {
      const groups: SampleGroup[] = []
      await worker.start()
      while (groups.length < count) {
        const { done, value } = await clock.run(iterator.next())
        if (done === true) break
        // The data comes again and again: quicker rows would crowd out the others.
        if (value.occurrence < count) groups.push(value)
      }
      await clock.run(worker.stop())
      return groups.toSorted((a, b) => a.occurrence - b.occurrence)
    },
  }
}
const textOf = (group: SampleGroup | undefined): string => String.fromCharCode(...group!.samples[0]!.tokenIds).replaceAll("\0", "|").replaceAll("\n", "")

describe("named environments", () => {
  test("each row lives in its own, with only its tools shown; a row that names none has none", async () => {
    const run = await runOf({
      source: "mixed.jsonl",
      environments: [{ name: "counter", use: "./worlds.ts#counter" }, { name: "echo", use: "./worlds.ts#echo" }],
    }, ["call up {}", "call up {}"])
    const [counter, echo, none] = await run.groups(3)
    expect(textOf(counter)).toBe("[up]<user>a from 5|<assistant>call up {}|<tool>1|<assistant>call up {}|<tool>2|<assistant>done|")
    // One instance per rollout: both members count from zero, and each scores itself beside the reward of the config.
    expect(counter!.memberParts).toEqual([{ environment: 2, plain: 5 }, { environment: 2, plain: 5 }])
    expect(textOf(echo)).toStartWith("<user>b|<assistant>call up {}|<user>you said ")
    expect(echo!.memberParts[0]).toMatchObject({ environment: 1 })
    expect(textOf(none)).toBe("cdone|")
    expect(run.prompts.filter((prompt) => prompt.startsWith("[up]")).every((prompt) => prompt.includes("<user>a"))).toBe(true)
    expect(Reflect.get(globalThis, "closedCounters")).toBeGreaterThanOrEqual(2)
  })

  test("rows that name none live in `environment`; without `environments` the column is one like any other", async () => {
    const both = await runOf({ source: "mixed.jsonl", environment: { use: "./worlds.ts#echo" }, environments: [{ name: "counter", use: "./worlds.ts#counter" }, { name: "echo", use: "./worlds.ts#echo" }] })
    expect(textOf((await both.groups(3))[2])).toStartWith("<user>c|<assistant>fine|<user>you said fine|")
    const one = await runOf({ source: "mixed.jsonl", environment: { use: "./worlds.ts#echo" } })
    expect((await one.groups(3)).map((group) => textOf(group).includes("you said"))).toEqual([true, true, true])
  })

  test("a name that is none of them is a dataset error with the row, before anything is generated", async () => {
    const failure = await runOf({ source: "wrong.jsonl", environments: [{ name: "counter", use: "./worlds.ts#counter" }] }).catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: "dataset_invalid", message: 'row 1 asks for environment "conuter"', hint: "Known are: counter.", details: { row: "1", environment: "conuter" } })
  })

  test("what is no environment is refused by the key that asked", async () => {
    const failure = async (use: string): Promise<unknown> => runOf({ source: "mixed.jsonl", environments: [{ name: "counter", use }] }).catch((error: unknown) => error)
    expect(await failure("./tools.ts#shout")).toMatchObject({ code: "plugin_invalid", message: expect.stringContaining("shout is") })
    expect(await failure("./nowhere.ts")).toMatchObject({ code: "plugin_not_found", message: expect.stringContaining("environments[0].use") })
  })
})

test("an environment supplies the prompt of rows that have none; without an environment such rows are refused", async () => {
  const run = await runOf({ source: "empty.jsonl", environment: { use: "./worlds.ts#author" } })
  expect(textOf((await run.groups(1))[0])).toBe("<user>made up by the environment|<assistant>fine|")
  await expect(runOf({ source: "empty.jsonl" })).rejects.toMatchObject({ code: "dataset_invalid" })
})

describe("standalone tools", () => {
  test("sync and async tools work without an environment: the prompt becomes the user's message, every rollout is its own", async () => {
    const run = await runOf({ source: "plain.jsonl", tools: ["./tools.ts", "./tools.ts#shout"] }, [`call double {"x":4}`, `call later {"x":5}`, `call shout {"text":"no"}`])
    const [group] = await run.groups(1)
    expect(textOf(group)).toBe(`[double,later,shout]<user>hi|<assistant>call double {"x":4}|<tool>8|<assistant>call later {"x":5}|<tool>{"later":5}|<assistant>call shout {"text":"no"}|<tool>NO|<assistant>done|`)
    expect(group!.memberParts).toEqual([{ plain: 7 }, { plain: 7 }])
  })

  test("they stand beside those of the environment, which win over equal names", async () => {
    const run = await runOf({ source: "plain.jsonl", environment: { use: "./worlds.ts#counter" }, tools: ["./tools.ts#shout", "./tools.ts#up"] }, ["call up {}"])
    const [group] = await run.groups(1)
    expect(textOf(group)).toStartWith("[shout,up]<user>hi from 0|<assistant>call up {}|<tool>1|")
  })

  test("each entry has its deadline, which the model reads about", async () => {
    const run = await runOf({ source: "plain.jsonl", tools: [{ use: "./tools.ts#hang", deadlineMs: 70 }] }, ["call hang {}"])
    expect(textOf((await run.groups(1))[0])).toContain("tool hang took longer than 70 ms")
  })

  test("calls of an environment and of its tools are bounded by the settings of rollout", async () => {
    const slow = await runOf({ source: "plain.jsonl", environment: { use: "./worlds.ts#slow" }, rollout: { groupSize: 2, toolTimeoutMs: 40, environmentTimeoutMs: 30 } }, ["call wait {}"])
    const [group] = await slow.groups(1)
    expect(textOf(group)).toContain("tool wait took longer than 40 ms")
    expect(slow.events.find(({ kind }) => kind === "rollout.failed")).toBeUndefined()
    const stuck = await runOf({ source: "plain.jsonl", environment: { use: "./worlds.ts#stuck" }, rollout: { groupSize: 2, environmentTimeoutMs: 30 } })
    await stuck.groups(1).catch(() => undefined)
    expect(stuck.events.find(({ kind }) => kind === "rollout.failed")).toMatchObject({ reason: "environment_failed", data: { error: "environment reset: environment reset took longer than 30 ms" } })
  })

  test("two tools of one name, and what is no tool, are refused by key", async () => {
    const failure = async (...tools: string[]): Promise<unknown> => runOf({ source: "plain.jsonl", tools }).catch((error: unknown) => error)
    expect(await failure("./tools.ts#up", "./tools.ts#up")).toMatchObject({ code: "config_invalid", message: 'two tools are named "up": of tools[0].use = "./tools.ts#up" and of tools[1].use = "./tools.ts#up"' })
    expect(await failure("./plain.ts")).toMatchObject({ code: "plugin_invalid", message: expect.stringContaining("not a set of tools") })
  })
})
