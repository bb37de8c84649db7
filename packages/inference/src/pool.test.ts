import { afterAll, beforeAll, expect, test } from "bun:test"
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import fc from "fast-check"
import { prefixAffinity } from "./affinity.ts"
import { chooseMember, newMember } from "./member.ts"
import { serverPool, type PoolOptions } from "./pool.ts"
import type { GenerateRequest, InferenceServer, ServerHealth } from "./protocol.ts"
import { waitUntilReady } from "./ready.ts"
import { startFakeServer, type FakeServer } from "./testing/index.ts"
import { vllmServer } from "./vllm.ts"

const sampling = { maxTokens: 4, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [], seed: 1 }
const request = (ids: readonly number[] = [1, 2, 3], over: Partial<GenerateRequest> = {}): GenerateRequest => ({ promptIds: Int32Array.from(ids), n: 1, sampling, signal: new AbortController().signal, ...over })
const connect = (fake: FakeServer, name: string) => vllmServer({ url: fake.url, model: "policy", name, route: "generate", retry: { attempts: 1, firstDelayMs: 1, maxDelayMs: 1 } })
const options = (over: Partial<PoolOptions> = {}): PoolOptions => ({ now: () => performance.now(), probeAfterMs: 10, patienceMs: 2_000, ...over })
const generations = (fake: FakeServer) => fake.requests.filter(({ path }) => path === "/inference/v1/generate").length

let dir = ""
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "cohort-pool-"))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

async function weights(name: string): Promise<string> {
  const folder = join(dir, name)
  await mkdir(folder, { recursive: true })
  const header = '{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
  const head = Buffer.alloc(8)
  head.writeBigUInt64LE(BigInt(header.length))
  await Bun.write(join(folder, "model.safetensors"), Buffer.concat([head, Buffer.from(header), Buffer.alloc(4)]))
  return folder
}

test("different prompts spread, equal prompts and longer turns stay together", async () => {
  await using a = await startFakeServer({ tokenMs: 5 })
  await using b = await startFakeServer({ tokenMs: 5 })
  const pool = serverPool([connect(a, "a"), connect(b, "b")], options())
  await Promise.all([1, 2, 3, 4, 5, 6].map((first) => pool.generate(request([first, 7, 8, 9]))))
  expect([generations(a), generations(b)]).toEqual([3, 3])
  const group = Array.from({ length: 8 }, (_, i) => i + 100)
  await Promise.all(group.map(() => pool.generate(request(group))))
  const counts = [generations(a) - 3, generations(b) - 3]
  expect(counts.toSorted()).toEqual([0, 8])
  await pool.generate(request([...group, 1, 2, 3, 4]))
  expect(Math.max(generations(a) - 3, generations(b) - 3)).toBe(9)
})

test("a request whose server died is answered elsewhere; the dead one is aside with its reason and comes back", async () => {
  await using a = await startFakeServer()
  await using b = await startFakeServer()
  const said: string[] = []
  const pool = serverPool([connect(a, "a"), connect(b, "b")], options({ onChange: (message) => said.push(message) }))
  a.fail("/inference/v1/generate", { kind: "status", status: 500 })
  b.fail("/health", { kind: "status", status: 503 })
  expect(await pool.generate(request())).toHaveLength(1)
  expect(pool.status.map(({ aside }) => aside !== undefined)).toEqual([true, false])
  expect(pool.status[0]!.aside).toContain("500 scripted failure")
  await pool.probe()
  expect(pool.status[0]!.aside).toBeUndefined()
  expect(said).toEqual([expect.stringMatching(/^a set aside: /), expect.stringMatching(/^a is back/)])
})

test("a reset connection fails over too", async () => {
  await using a = await startFakeServer()
  await using b = await startFakeServer()
  const pool = serverPool([connect(a, "a"), connect(b, "b")], options())
  a.fail("/inference/v1/generate", { kind: "reset" }, 2)
  await pool.generate(request())
  expect(generations(b)).toBe(1)
  expect(pool.status[0]!.aside).toBeDefined()
})

test("a refusal is thrown at once and puts nobody aside", async () => {
  await using a = await startFakeServer()
  await using b = await startFakeServer()
  const pool = serverPool([connect(a, "a"), connect(b, "b")], options())
  await expect(pool.generate(request(Array.from({ length: 3_000 }, () => 1)))).rejects.toMatchObject({ code: "inference_rejected" })
  expect(pool.status.map(({ aside }) => aside)).toEqual([undefined, undefined])
  expect(generations(a) + generations(b)).toBe(1)
})

test("with nobody left a request waits for one to come back, then says why nobody can", async () => {
  await using a = await startFakeServer()
  const pool = serverPool([connect(a, "a")], options({ patienceMs: 2_000 }))
  a.fail("/inference/v1/generate", { kind: "status", status: 503 })
  a.fail("/health", { kind: "status", status: 503 }, 2)
  expect(await pool.generate(request())).toHaveLength(1)
  await a.close()
  const hasty = serverPool([connect(a, "a")], options({ patienceMs: 40 }))
  await expect(hasty.generate(request())).rejects.toMatchObject({ code: "inference_unreachable", message: expect.stringMatching(/\(a: POST .*refused|\(a: .*connect/i) })
  const controller = new AbortController()
  const waiting = serverPool([connect(a, "a")], options({ patienceMs: 60_000 })).generate(request([1], { signal: controller.signal }))
  setTimeout(() => controller.abort(), 30)
  await expect(waiting).rejects.toMatchObject({ code: "aborted" })
})

test("weights reach all; the one that failed is aside, catches up later and only then serves", async () => {
  await using a = await startFakeServer()
  await using b = await startFakeServer()
  const pool = serverPool([connect(a, "a"), connect(b, "b")], options())
  await pool.pause("keep")
  a.fail("/collective_rpc", { kind: "status", status: 500 })
  const path = await weights("v1")
  await pool.loadWeights({ path, version: 1 })
  expect(pool.outcomes).toEqual([{ name: "a", ok: false, error: expect.stringContaining("version 0 again") }, { name: "b", ok: true }])
  await pool.resume()
  expect(pool.status.map(({ aside }) => aside !== undefined)).toEqual([true, false])
  for (const first of [1, 2, 3]) expect((await pool.generate(request([first])))[0]!.versions).toEqual([[0, 1]])
  await pool.probe()
  expect(pool.status[0]).toMatchObject({ aside: undefined, version: 1 })
  expect(a.engine).toMatchObject({ version: "1", folder: path, paused: false })
})

test("a server that missed a version is caught up before it serves again, also when its weights were lost or it was restarted", async () => {
  await using a = await startFakeServer()
  await using b = await startFakeServer()
  const pool = serverPool([connect(a, "a"), connect(b, "b")], options())
  const [first, second] = pool.members as [InferenceServer, InferenceServer]
  const update = async (server: InferenceServer, version: number) => {
    await server.pause("keep")
    await server.loadWeights({ path: await weights(`v${version}`), version })
    await server.resume()
  }
  await Promise.all([update(first, 1), update(second, 1)])
  // Nobody told the first of version 2.
  await update(second, 2)
  expect((await pool.generate(request()))[0]!.versions).toEqual([[0, 2]])
  await pool.probe()
  expect(a.engine.version).toBe("2")

  // The load and the way back fail: it may not even be resumed.
  await first.pause("keep")
  a.fail("/collective_rpc", { kind: "status", status: 500 }, 2)
  await expect(first.loadWeights({ path: await weights("v3"), version: 3 })).rejects.toMatchObject({ details: { recovered: false } })
  await expect(first.resume()).rejects.toThrow("resume refused")
  await update(second, 3)
  await pool.probe()
  expect(pool.status[0]).toMatchObject({ aside: undefined, version: 3 })
  expect(a.engine).toMatchObject({ version: "3", paused: false, poisoned: false })

  // Restarted between two requests: the connection breaks, and it holds its first weights with their label.
  a.fail("/inference/v1/generate", { kind: "reset" }, 2)
  a.engine.version = "default"
  for (const id of [1, 2, 3, 4]) await pool.generate(request([id]))
  await pool.probe()
  expect(a.engine.version).toBe("3")
})

test("an update that runs is left alone by requests and probes", async () => {
  await using a = await startFakeServer()
  await using b = await startFakeServer()
  const pool = serverPool([connect(a, "a"), connect(b, "b")], options())
  const [first, second] = pool.members as [InferenceServer, InferenceServer]
  b.fail("/pause", { kind: "delay", ms: 60 })
  const slow = second.pause("keep")
  await first.pause("keep")
  await first.loadWeights({ path: await weights("v1"), version: 1 })
  await first.resume()
  expect((await pool.generate(request()))[0]!.versions).toEqual([[0, 1]])
  await pool.probe()
  expect(b.requests.map(({ path }) => path)).toEqual(["/pause"])
  await slow
})

test("a load that fails everywhere is thrown with each server's reason, and the old weights serve on", async () => {
  await using a = await startFakeServer()
  await using b = await startFakeServer()
  const pool = serverPool([connect(a, "a"), connect(b, "b")], options())
  await pool.pause("keep")
  await expect(pool.loadWeights({ path: join(dir, "nowhere"), version: 1 })).rejects.toThrow(/a: .*nowhere.*; b: .*nowhere/)
  await pool.resume()
  expect((await pool.generate(request()))[0]!.versions).toEqual([[0, 0]])
})

test("health speaks for those that answer", async () => {
  await using a = await startFakeServer({ maxModelLength: 512 })
  await using b = await startFakeServer({ maxModelLength: 256 })
  const pool = serverPool([connect(a, "a"), connect(b, "b")], options())
  expect(await pool.health()).toMatchObject({ ready: true, maxModelLength: 256, version: 0 })
  await b.close()
  expect(await pool.health()).toMatchObject({ ready: true, maxModelLength: 512 })
  await a.close()
  await expect(pool.health()).rejects.toThrow("no inference server")
})

test("an empty pool is a configuration error", () => {
  expect(() => serverPool([], options())).toThrow("0 servers")
})

test("the chosen member is never busier than the least busy one by more than the slack, nor aside, nor tried", () => {
  const stub = {} as InferenceServer
  const member = fc.record({ load: fc.integer({ min: 0, max: 50 }), aside: fc.boolean(), tried: fc.boolean(), paused: fc.boolean() })
  fc.assert(
    fc.property(fc.array(member, { minLength: 1, maxLength: 6 }), fc.nat(5), fc.nat(20), (shapes, knownIndex, slack) => {
      const members = shapes.map((shape, i) => ({ ...newMember(stub, i, 1), load: shape.load, paused: shape.paused, aside: shape.aside ? "x" : undefined }))
      const tried = new Set(members.filter((_, i) => shapes[i]!.tried))
      const chosen = chooseMember(members, tried, members[knownIndex], slack)
      const usable = members.filter((one) => one.aside === undefined && !tried.has(one))
      expect(chosen === undefined).toBe(usable.length === 0)
      if (chosen === undefined) return
      expect(usable).toContain(chosen)
      const peers = usable.filter((one) => one.paused === chosen.paused)
      expect(chosen.load).toBeLessThanOrEqual(Math.min(...peers.map((one) => one.load)) + slack)
      if (chosen.paused) expect(usable.every((one) => one.paused)).toBe(true)
    }),
    { seed: 3, numRuns: 100 },
  )
})

test("prefix memory: the longest known prefix of at least half wins, and old entries make room", () => {
  const affinity = prefixAffinity({ blockTokens: 4, maxEntries: 6 })
  affinity.remember(Int32Array.of(1, 2, 3, 4, 5), 0)
  affinity.remember(Int32Array.of(1, 2, 3, 4, 9, 9, 9, 9), 1)
  expect(affinity.find(Int32Array.of(1, 2, 3, 4, 5))).toBe(0)
  expect(affinity.find(Int32Array.of(1, 2, 3, 4, 9, 9, 9, 9, 7))).toBe(1)
  expect(affinity.find(Int32Array.of(1, 2, 3, 4, 6, 6, 6, 6, 6, 6))).toBeUndefined()
  expect(affinity.find(Int32Array.of(8))).toBeUndefined()
  for (let i = 0; i < 6; i += 1) affinity.remember(Int32Array.of(100 + i), 2)
  expect(affinity.find(Int32Array.of(1, 2, 3, 4, 5))).toBeUndefined()
})

test("waiting for readiness says what it waits for, and stops for what waiting cannot cure", async () => {
  const healthy: ServerHealth = { ready: true, running: 0, waiting: 0, kvUsage: 0, maxModelLength: 8, version: 0 }
  let now = 0
  const clock = { now: () => now, sleep: async (ms: number) => void (now += ms) }
  let looks = 0
  const server = (health: () => Promise<ServerHealth>) => ({ name: "vllm-a", health }) as InferenceServer
  const reasons: string[] = []
  const slow = server(async () => ({ ...healthy, ready: (looks += 1) > 3 }))
  expect(await waitUntilReady(slow, { timeoutMs: 10_000, clock, onWaiting: (reason) => reasons.push(reason) })).toEqual(healthy)
  expect(reasons).toEqual(["waiting for vllm-a: it answers, but is not ready"])
  await using gone = await startFakeServer()
  await gone.close()
  await expect(waitUntilReady(vllmServer({ url: gone.url, model: "m", name: "vllm-b" }), { timeoutMs: 1_000, clock })).rejects.toMatchObject({ code: "timeout", message: expect.stringMatching(/^vllm-b was not ready within 1 s: GET \/health/) })
  await using locked = await startFakeServer()
  locked.fail("/health", { kind: "status", status: 401, body: { error: "Unauthorized" } })
  await expect(waitUntilReady(vllmServer({ url: locked.url, model: "m" }), { timeoutMs: 60_000 })).rejects.toMatchObject({ code: "inference_rejected" })
  const controller = new AbortController()
  controller.abort()
  await expect(waitUntilReady(slow, { timeoutMs: 1_000, clock, signal: controller.signal })).rejects.toMatchObject({ code: "aborted" })
})
