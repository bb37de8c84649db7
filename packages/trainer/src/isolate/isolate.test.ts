// Real processes with real loops and real allocations: what an isolate is for.
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, readFileSync } from "node:fs"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { runReward, type RewardResult, type ScoredRollout } from "@cohort/env"
import { createRegistry, definePlugin, defineReward, type LoadedReward, systemHost } from "@cohort/plugin"
import type { Isolated } from "./plugin.ts"
import { openIsolatedReward, openIsolatedTools } from "./plugin.ts"

let dir = ""
const open: Isolated[] = []
const logged: string[] = []

const files: Readonly<Record<string, string>> = {
  "reward.ts": `
    import { appendFileSync } from "node:fs"
    const kept = []
    export default {
      async score({ text, row, completionIds }, ctx) {
        if (text === "loop") for (;;) {}
        if (text === "hang") await new Promise(() => {})
        if (text === "bytes") for (;;) kept.push(new Uint8Array(1 << 20).fill(1))
        if (text === "objects") for (let i = 0; ; i++) kept.push({ name: "n" + i, of: [i] })
        if (text === "leak") { setInterval(() => kept.push(new Uint8Array(16 << 20).fill(1)), 5); return process.pid }
        if (text === "exit") { console.error("no more memory in the cellar"); process.exit(3) }
        if (text === "throw") throw new Error("bad row")
        if (text === "null") return null
        if (text === "child") { Bun.spawn(["sleep", "1000"]); return process.pid }
        if (text.startsWith("sleep")) { Bun.sleepSync(Number(text.slice(5))); return process.pid }
        if (text === "log") { ctx.log("a line"); console.log("printed"); return 1 }
        return { kind: "ok", value: process.pid, parts: { sum: completionIds.reduce((a, b) => a + b, 0), answer: row.answer, version: ctx.policyVersion }, reason: completionIds.constructor.name }
      },
      close() { appendFileSync(${JSON.stringify("DIR")} + "/closed.txt", "closed ") },
    }`,
  "group.ts": `export default { scoreGroup: (rollouts) => rollouts.map((_, at) => at / 10) }`,
  "tools.ts": `
    const input = { "~standard": { version: 1, vendor: "t", validate: (value) => (typeof value.code === "string" ? { value: value.code } : { issues: [{ message: "expected text", path: ["code"] }] }) } }
    export default {
      run: { description: "Runs code.", input, parameters: { type: "object", properties: { code: { type: "string" } } }, run: (code) => (0, eval)(code) },
      dice: { description: "Throws a die.", run: async (_, ctx) => Math.floor(ctx.random() * 6) },
    }`,
}

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "cohort-isolate-"))
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text.replace('"DIR"', JSON.stringify(dir)))
})
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()))
  logged.length = 0
})
afterAll(() => rm(dir, { recursive: true, force: true }))

const context = (registry = createRegistry(systemHost())) => ({
  registry, plugins: [], env: process.env,
  setup: { signal: new AbortController().signal, log: (line: string) => void logged.push(line), random: () => 0.5, projectDir: dir },
})
const use = (path: string, over: object = {}) => ({ use: path, options: {}, askedBy: "rewards[0].use", deadlineMs: 2_000, isolateMemoryMb: 256, ...over })

async function reward(over: { readonly deadlineMs?: number; readonly isolateMemoryMb?: number; readonly path?: string } = {}): Promise<LoadedReward & Isolated> {
  const { path = "./reward.ts", ...rest } = over
  const loaded = await openIsolatedReward(use(path, rest), context())
  open.push(loaded)
  return loaded
}

const rollout = (text: string): ScoredRollout => ({
  row: { id: "r", prompt: "p", answer: 42 }, prompt: "p", completion: [{ role: "assistant", content: text }], text, completionIds: Int32Array.of(1, 2, 3), turns: 1, finishReason: "stop",
})
const score = ({ reward: of, name }: LoadedReward, ...texts: string[]): Promise<readonly RewardResult[]> =>
  runReward(of, texts.map(rollout), { signal: new AbortController().signal, log: () => undefined, policyVersion: 5 }, name)
const pidOf = (result: RewardResult | undefined): number => (result?.kind === "ok" ? result.value : Number.NaN)
const alive = (pid: number): boolean => existsSync(`/proc/${pid}`) && !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"))
const until = async (holds: () => boolean): Promise<void> => {
  for (let tries = 0; !holds() && tries < 200; tries++) await Bun.sleep(20)
}

describe("a reward in isolates", () => {
  test("scores like any other: rows, ids, parts, null, errors; in another process", async () => {
    const loaded = await reward()
    const [ok, none, thrown] = await score(loaded, "fine", "null", "throw")
    expect(ok).toMatchObject({ kind: "ok", parts: { sum: 6, answer: 42, version: 5 }, reason: "Int32Array" })
    expect(pidOf(ok)).not.toBe(process.pid)
    expect(none).toEqual({ kind: "notApplicable" })
    expect(thrown).toEqual({ kind: "failed", error: "reward: threw bad row", retryable: true })
    expect(await score(await reward({ path: "./group.ts" }), "a", "b", "c")).toEqual([0, 0.1, 0.2].map((value) => ({ kind: "ok", value })))
  })

  test("an endless loop blocks nobody and ends as a failure at the deadline; the next call has a fresh isolate", async () => {
    const loaded = await reward({ deadlineMs: 300 })
    let ticks = 0
    const ticking = setInterval(() => ticks++, 10)
    const start = performance.now()
    const [looped, waited, fine] = await score(loaded, "loop", "hang", "fine")
    clearInterval(ticking)
    expect(looped).toEqual({ kind: "failed", error: "reward: took longer than 300 ms and was ended", retryable: true })
    expect(waited).toEqual(looped!)
    expect(performance.now() - start).toBeLessThan(2_500)
    expect(ticks).toBeGreaterThan(15)
    const [again] = await score(loaded, "fine")
    expect(pidOf(again)).toBeGreaterThan(0)
    expect(fine?.kind).toBe("ok")
  })

  test.each(["bytes", "objects"])("taking memory without end (%s) ends as a failure at the cap, and the next call has a fresh isolate", async (text) => {
    const loaded = await reward({ deadlineMs: 20_000, isolateMemoryMb: 200 })
    const [before] = await score(loaded, "fine")
    const [full, fine] = await score(loaded, text, "fine")
    const error = full?.kind === "failed" && full.retryable ? full.error : ""
    expect(error).toMatch(/^reward: used \d+ MiB, over its cap of 200 MiB, and was ended$/)
    const used = Number(/used (\d+)/.exec(error)?.[1])
    expect(used).toBeLessThan(1_500)
    expect(fine?.kind).toBe("ok")
    await until(() => !alive(pidOf(before)) || loaded.pids().includes(pidOf(before)))
    expect(pidOf((await score(loaded, "fine"))[0])).toBeGreaterThan(0)
  }, 30_000)

  test("one that ends by itself fails its call with its last words, and is started again", async () => {
    const loaded = await reward()
    const [ended] = await score(loaded, "exit")
    expect(ended).toEqual({ kind: "failed", error: "reward: its process ended with code 3; its last words were: no more memory in the cellar", retryable: true })
    expect((await score(loaded, "fine", "fine", "fine")).map(({ kind }) => kind)).toEqual(["ok", "ok", "ok"])
  })

  test("one that takes memory between calls is ended too, and costs nobody a call", async () => {
    const loaded = await reward({ isolateMemoryMb: 200 })
    const pid = pidOf((await score(loaded, "leak"))[0])
    await until(() => !alive(pid))
    expect(alive(pid)).toBe(false)
    expect(logged.some((line) => /an idle isolate of reward .* used \d+ MiB, over its cap of 200 MiB/.test(line))).toBe(true)
    expect((await score(loaded, "fine"))[0]?.kind).toBe("ok")
  })

  test("a plugin that cannot be loaded again fails its calls with the reason, and hangs none", async () => {
    const path = join(dir, "once.ts")
    await writeFile(path, "export default () => process.exit(1)")
    const loaded = await reward({ path })
    await rm(path)
    expect((await score(loaded, "a"))[0]).toMatchObject({ kind: "failed", error: expect.stringContaining("its process ended with code 1") })
    expect((await score(loaded, "a", "b")).map((result) => result.kind === "failed" && result.error.includes("there is no module"))).toEqual([true, true])
  })

  test("calls queue over a few isolates, and the deadline counts from when each runs", async () => {
    const loaded = await reward({ deadlineMs: 900 })
    const results = await score(loaded, ...Array.from({ length: 12 }, () => "sleep200"))
    expect(results.map(({ kind }) => kind)).toEqual(results.map(() => "ok"))
    const pids = new Set(results.map(pidOf))
    expect(pids.size).toBeLessThanOrEqual(4)
    expect(loaded.pids().toSorted()).toEqual([...pids].toSorted())
  }, 20_000)

  test("a stop of the run takes calls out of the queue and ends those that run", async () => {
    const loaded = await reward({ deadlineMs: 60_000 })
    const stop = new AbortController()
    const pending = runReward(loaded.reward, Array.from({ length: 6 }, () => rollout("loop")), { signal: stop.signal, log: () => undefined, policyVersion: 0 }, "looping")
    await Bun.sleep(300)
    const pids = loaded.pids()
    stop.abort(new Error("the run stops"))
    expect((await pending).map((result) => result.kind === "failed" && [result.error, result.retryable])).toEqual(Array.from({ length: 6 }, () => ["looping: was stopped: the run stops", false]))
    await until(() => !pids.some(alive))
    expect(pids.filter(alive)).toEqual([])
    expect((await score(loaded, "fine"))[0]?.kind).toBe("ok")
  })

  test("what it logs and prints reaches the run's log", async () => {
    const loaded = await reward()
    await score(loaded, "log")
    await until(() => logged.length >= 2)
    expect(logged.toSorted()).toEqual(["[./reward.ts] a line", "[./reward.ts] printed"])
  })

  test("closing lets the plugin close, ends every process with what it started, and fails later calls", async () => {
    const loaded = await reward()
    const [started] = await score(loaded, "child")
    const children = readFileSync(`/proc/${pidOf(started)}/task/${pidOf(started)}/children`, "utf8").trim().split(" ").map(Number)
    expect(children.every(alive)).toBe(true)
    const running = score(loaded, "loop")
    await Bun.sleep(100)
    const pids = loaded.pids()
    await loaded.close()
    expect(pids.filter(alive)).toEqual([])
    await until(() => !children.some(alive))
    expect(children.filter(alive)).toEqual([])
    expect(readFileSync(join(dir, "closed.txt"), "utf8")).toContain("closed")
    expect((await running)[0]).toMatchObject({ kind: "failed", retryable: false })
    expect((await score(loaded, "fine"))[0]).toMatchObject({ kind: "failed", retryable: false })
  })

  test("what cannot be loaded is told as in the run's own process; a cap under what loading takes too", async () => {
    const failure = (path: string, over: object = {}): Promise<unknown> => openIsolatedReward(use(path, over), context()).catch((error: unknown) => error)
    expect(await failure("./absent.ts")).toMatchObject({ code: "plugin_not_found", message: expect.stringContaining("rewards[0].use") })
    expect(await failure("./reward.ts", { options: { a: 1 } })).toMatchObject({ code: "config_invalid" })
    expect(await failure("./tools.ts")).toMatchObject({ code: "plugin_invalid" })
    expect(await failure("./reward.ts", { isolateMemoryMb: 1 })).toMatchObject({ code: "worker_failed", message: expect.stringMatching(/the isolate of reward \.\/reward\.ts \(rewards\[0\]\.use\) used \d+ MiB, over its cap of 1 MiB/) })
    const registry = createRegistry(systemHost())
    registry.add(definePlugin({ name: "inline", version: "1", apiVersion: 1, rewards: { one: defineReward({ summary: "s", setup: () => () => 1 }) } }))
    expect(await openIsolatedReward(use("inline"), context(registry)).catch((error: unknown) => error)).toMatchObject({ code: "plugin_not_found", hint: expect.stringContaining("needs a module of its own") })
  })
})

describe("tools in isolates", () => {
  const ctx = { signal: new AbortController().signal, random: () => 0.25, log: () => undefined }
  const opened = async (over: object = {}) => {
    const loaded = await openIsolatedTools(use("./tools.ts", over), context())
    open.push(loaded)
    return async (name: string, args: object) => loaded.tools[name]!.run(args as never, ctx)
  }

  test("the model sees them as they are written; arguments are checked there, randomness is the rollout's", async () => {
    const loaded = await openIsolatedTools(use("./tools.ts"), context())
    open.push(loaded)
    expect(loaded.tools["run"]).toMatchObject({ description: "Runs code.", parameters: { type: "object", properties: { code: { type: "string" } } } })
    const run = await opened()
    expect(await run("run", { code: "6 * 7" })).toBe(42)
    await expect(run("run", { code: 6 })).rejects.toThrow("code: expected text")
    await expect(run("run", { code: "null.x" })).rejects.toThrow("null")
    expect(await run("dice", {})).toBe(await run("dice", {}))
  })

  test("a loop and an allocation end with words for the model, and the tool works again", async () => {
    const run = await opened({ deadlineMs: 300, isolateMemoryMb: 200 })
    await expect(run("run", { code: "for (;;) {}" })).rejects.toThrow("tool run took longer than 300 ms and was ended")
    expect(await run("run", { code: "1 + 1" })).toBe(2)
    const filling = await opened({ deadlineMs: 20_000, isolateMemoryMb: 200 })
    await expect(filling("run", { code: "const kept = []; for (;;) kept.push(new Uint8Array(1 << 20).fill(1))" })).rejects.toThrow(/tool run used \d+ MiB, over its cap of 200 MiB/)
  }, 30_000)
})

test("an isolate in an endless loop dies with the run's process, however that ends", async () => {
  const program = join(dir, "run.ts")
  await writeFile(program, `
    import { spawnIsolate } from ${JSON.stringify(join(import.meta.dir, "process.ts"))}
    const isolate = spawnIsolate({ env: process.env, log: console.error })
    await isolate.call("open", { kind: "reward", use: "./reward.ts", options: {}, askedBy: "t", plugins: [], projectDir: ${JSON.stringify(dir)}, installDirs: [], seed: 1 })
    void isolate.call("score", { rollouts: [{ row: {}, text: "loop", completionIds: new Int32Array(0) }], policyVersion: 0 })
    setTimeout(() => { console.log(isolate.pid); process.kill(process.pid, "SIGKILL") }, 200)`)
  const child = Bun.spawn([process.execPath, program], { stdout: "pipe", stderr: "inherit" })
  const pid = Number(await new Response(child.stdout).text())
  await child.exited
  expect(pid).toBeGreaterThan(0)
  await until(() => !alive(pid))
  expect(alive(pid)).toBe(false)
})
