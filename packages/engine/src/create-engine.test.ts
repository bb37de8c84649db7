import { afterEach, describe, expect, test } from "bun:test"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

import { embeddedServer } from "./embedded.ts"
import { createEngine } from "./create-engine.ts"
import type { Engine, EngineOptions } from "./engine.ts"
import type { EngineRequest } from "./request.ts"
import { createByteTokenizer, createHashRunner, type HashRunner, type HashRunnerOptions } from "./testing/index.ts"

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

function start(options: HashRunnerOptions = {}, more: Partial<EngineOptions> = {}): { engine: Engine; runner: HashRunner } {
  const runner = createHashRunner({ vocabSize: 258, maxModelLength: 128, ...options })
  let drawn = 0
  const engine = createEngine({ runner, tokenizer: createByteTokenizer(), modelName: "policy", now: () => 0, random: () => (drawn++ * 0.317) % 1, ...more })
  cleanups.push(() => engine.close())
  return { engine, runner }
}

async function weightsFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "cohort-engine-"))
  cleanups.push(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, "model.safetensors"), "")
  return folder
}

const asked: EngineRequest = { promptIds: Int32Array.of(72, 105), n: 1, maxTokens: 20, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, seed: 3, ignoreEos: true }

/** A runner whose decode calls wait until the test lets them go. */
function gated() {
  let open = Promise.withResolvers<void>()
  let arrived = Promise.withResolvers<void>()
  return {
    beforeCall: async (call: string) => {
      if (call !== "decode") return
      arrived.resolve()
      await open.promise
    },
    arrived: () => arrived.promise,
    openForGood: () => open.resolve(),
    /** Lets the waiting call go and stops the next one. */
    step() {
      const before = open
      open = Promise.withResolvers()
      arrived = Promise.withResolvers()
      before.resolve()
    },
  }
}

describe("submit", () => {
  test("child i of n equals a single request with seed + i", async () => {
    const { engine } = start()
    const group = await engine.submit({ ...asked, n: 3 }).result
    const singles = await Promise.all([0, 1, 2].map((index) => engine.submit({ ...asked, seed: 3 + index }).result))
    expect(group.map((one) => one.tokenIds)).toEqual(singles.map(([one]) => one!.tokenIds))
    expect(new Set(group.map((one) => one.tokenIds.join())).size).toBe(3)
  })

  test("draws different seeds for children when none is given", async () => {
    const { engine } = start()
    const { seed: _, ...unseeded } = asked
    const group = await engine.submit({ ...unseeded, n: 3 }).result
    expect(new Set(group.map((one) => one.tokenIds.join())).size).toBe(3)
  })

  test("deltas join to the result and end with finish and versions", async () => {
    const { engine } = start()
    const submission = engine.submit({ ...asked, n: 2, stream: true, text: true })
    const joined = [{ ids: [] as number[], text: "", ends: 0 }, { ids: [] as number[], text: "", ends: 0 }]
    for await (const delta of submission.deltas()) {
      joined[delta.index]!.ids.push(...delta.tokenIds)
      joined[delta.index]!.text += delta.text
      if (delta.finish !== undefined) joined[delta.index]!.ends++
      expect(delta.versions === undefined).toBe(delta.finish === undefined)
    }
    const result = await submission.result
    expect(joined).toEqual(result.map((one) => ({ ids: [...one.tokenIds], text: one.text, ends: 1 })))
  })

  test("a stop string cuts ids after the token that completed it, even inside a chunk", async () => {
    const { engine } = start()
    const [free] = await engine.submit({ ...asked, topK: 40, text: true, skipSpecialTokens: false }).result
    const index = free!.tokenIds.findIndex((id, at) => at > 2 && id >= 32 && id < 127)
    const stop = String.fromCharCode(free!.tokenIds[index]!)
    const first = free!.tokenIds.findIndex((id) => id === stop.charCodeAt(0))
    const [cut] = await engine.submit({ ...asked, topK: 40, stop: [stop], skipSpecialTokens: false }).result
    expect(cut!.tokenIds).toEqual(free!.tokenIds.slice(0, first + 1))
    expect(cut!.finish).toEqual({ reason: "stop", stopReason: stop })
    expect(cut!.text.includes(stop)).toBe(false)
  })

  test("the model's end token ends with a null stop reason and is kept", async () => {
    const { engine } = start()
    const [free] = await engine.submit(asked).result
    const eos = free!.tokenIds[5]!
    const other = start({}, { tokenizer: createByteTokenizer({ eosTokenIds: [eos] }) }).engine
    const [ended] = await other.submit({ ...asked, ignoreEos: false }).result
    expect(ended!.tokenIds).toEqual(free!.tokenIds.slice(0, free!.tokenIds.indexOf(eos) + 1))
    expect(ended!.finish).toEqual({ reason: "stop", stopReason: null })
  })

  test("an aborted signal frees the slot and rejects with aborted", async () => {
    const { engine } = start()
    const aborter = new AbortController()
    const { result } = engine.submit({ ...asked, maxTokens: 100, signal: aborter.signal })
    aborter.abort()
    expect(result).rejects.toMatchObject({ code: "aborted" })
    expect(engine.health()).toMatchObject({ running: 0, waiting: 0 })
    expect((await engine.submit(asked).result)[0]!.tokenIds.length).toBe(20)
  })

  test("a token that the tokenizer cannot decode fails its request alone", async () => {
    const bytes = createByteTokenizer()
    const decode: typeof bytes.decode = (ids, options) => {
      if (Array.from(ids).includes(3)) throw new Error("no such id")
      return bytes.decode(ids, options)
    }
    const { engine } = start({ drawnIds: 4, slots: 4 }, { tokenizer: { ...bytes, decode } })
    const [bad, good] = [engine.submit({ ...asked, n: 2, text: true }).result, engine.submit(asked).result]
    expect(bad).rejects.toThrow("Decoding token 3 failed: no such id")
    expect((await good)[0]!.tokenIds.length).toBe(20)
    expect(engine.health()).toMatchObject({ ready: true, running: 0, waiting: 0 })
    expect((await engine.submit({ ...asked, n: 4 }).result).length).toBe(4)
  })

  test("leaving a stream early ends the request", async () => {
    const { engine } = start()
    for await (const _ of engine.submit({ ...asked, maxTokens: 100, stream: true }).deltas()) break
    expect(engine.health()).toMatchObject({ running: 0, waiting: 0 })
  })
})

describe("pause", () => {
  test("keep freezes and resume goes on as if nothing had been", async () => {
    const gate = gated()
    const { engine } = start({ beforeCall: gate.beforeCall, chunkSizes: [2] })
    const [reference] = await start().engine.submit(asked).result
    const { result } = engine.submit(asked)
    await gate.arrived()
    const paused = engine.pause("keep", true)
    gate.step()
    await paused
    expect(engine.isPaused).toBe(true)
    const late = engine.submit({ ...asked, maxTokens: 1 }).result
    await Bun.sleep(5)
    expect(engine.health()).toMatchObject({ running: 0, waiting: 2 })
    gate.openForGood()
    engine.resume()
    expect((await result)[0]!.tokenIds).toEqual(reference!.tokenIds)
    expect((await late)[0]!.tokenIds.length).toBe(1)
  })

  test("wait finishes what runs and starts nothing", async () => {
    const { engine } = start({ slots: 1 })
    const [first, second] = [engine.submit(asked).result, engine.submit(asked).result]
    await Bun.sleep(0)
    await engine.pause("wait", true)
    expect((await first)[0]!.finish.reason).toBe("length")
    expect(engine.health()).toMatchObject({ running: 0, waiting: 1 })
    engine.resume()
    expect((await second)[0]!.finish.reason).toBe("length")
  })

  test("abort ends everything with the tokens so far; new requests wait", async () => {
    const gate = gated()
    const { engine } = start({ beforeCall: gate.beforeCall, chunkSizes: [4], slots: 1 })
    const [running, queued] = [engine.submit(asked).result, engine.submit(asked).result]
    await gate.arrived()
    const paused = engine.pause("abort", true)
    gate.step()
    await paused
    expect((await running)[0]).toMatchObject({ finish: { reason: "abort", stopReason: null } })
    expect((await running)[0]!.tokenIds.length).toBe(4)
    expect((await queued)[0]!.tokenIds).toEqual([])
    const late = engine.submit(asked).result
    gate.openForGood()
    engine.resume()
    expect((await late)[0]!.finish.reason).toBe("length")
  })

  test("a resume that comes first rejects the pause and ends no request", async () => {
    const gate = gated()
    const { engine } = start({ beforeCall: gate.beforeCall })
    const { result } = engine.submit(asked)
    await gate.arrived()
    const paused = engine.pause("abort", true)
    engine.resume()
    expect(paused).rejects.toMatchObject({ code: "aborted" })
    gate.openForGood()
    expect((await result)[0]!.finish.reason).toBe("length")
  })

  test("that comes while weights load returns only after it took effect", async () => {
    const loading = Promise.withResolvers<void>()
    const { engine } = start({ beforeCall: (call) => (call === "loadWeights" ? loading.promise : undefined) })
    await engine.pause("keep", true)
    const { result } = engine.submit(asked)
    const loaded = engine.loadWeights(await weightsFolder())
    await Bun.sleep(5)
    const paused = engine.pause("abort", true)
    loading.resolve()
    await Promise.all([loaded, paused])
    expect(engine.health()).toMatchObject({ running: 0, waiting: 0 })
    expect((await result)[0]!.finish.reason).toBe("abort")
  })

  test("twice, in any mix of modes, both return", async () => {
    const { engine } = start()
    engine.submit({ ...asked, maxTokens: 100 }).result.catch(() => undefined)
    await Promise.all([engine.pause("wait", true), engine.pause("keep", false), engine.pause("wait", false)])
    await engine.pause("abort", true)
    expect(engine.health()).toMatchObject({ running: 0, waiting: 0 })
  })
})

describe("new weights", () => {
  test("change the tokens from the switch on, and the spans say where", async () => {
    const gate = gated()
    const { engine } = start({ beforeCall: gate.beforeCall, chunkSizes: [4] }, { version: 1 })
    const { result } = engine.submit(asked)
    await gate.arrived()
    const paused = engine.pause("keep", true)
    gate.step()
    await paused
    const folder = await weightsFolder()
    await engine.loadWeights(folder, 2)
    gate.openForGood()
    engine.resume()
    const [completion] = await result
    expect(completion!.versions).toEqual([[0, "1"], [4, "2"]])
    const [continued] = await engine.submit({ ...asked, promptIds: Int32Array.from([72, 105, ...completion!.tokenIds.slice(0, 4)]), maxTokens: 16 }).result
    expect(completion!.tokenIds.slice(4)).toEqual([...continued!.tokenIds])
  })

  test("from a folder that is missing or empty change nothing", async () => {
    const { engine } = start({}, { version: 1 })
    const folder = await mkdtemp(join(tmpdir(), "cohort-engine-"))
    cleanups.push(() => rm(folder, { recursive: true }))
    expect(engine.loadWeights(join(folder, "nope"), 2)).rejects.toMatchObject({ code: "file_invalid" })
    expect(engine.loadWeights(folder, 2)).rejects.toMatchObject({ code: "file_invalid" })
    expect((await engine.submit(asked).result)[0]!.versions).toEqual([[0, "1"]])
  })

  test("that fail half-way fail every request until a load succeeds", async () => {
    let failing = true
    const { engine } = start({
      beforeCall: (call) => {
        if (call === "loadWeights" && failing) throw new Error("shard 2 ends early")
      },
    })
    const folder = await weightsFolder()
    await engine.pause("keep", true)
    const frozen = engine.submit(asked).result
    expect(engine.loadWeights(folder, 2)).rejects.toThrow("shard 2 ends early")
    expect(frozen).rejects.toThrow("shard 2 ends early")
    await frozen.catch(() => undefined)
    expect(engine.health().ready).toBe(false)
    expect(() => engine.submit(asked)).toThrow("shard 2 ends early")
    failing = false
    await engine.loadWeights(folder, 2)
    engine.resume()
    expect((await engine.submit(asked).result)[0]!.versions).toEqual([[0, "2"]])
  })
})

describe("a runner that fails", () => {
  test("fails all requests with a typed error and leaves the engine dead, never hanging", async () => {
    let calls = 0
    const { engine } = start({
      slots: 1,
      beforeCall: (call) => {
        if (call === "decode" && ++calls > 2) throw new Error("out of memory")
      },
    })
    const all = [engine.submit({ ...asked, maxTokens: 100 }).result, engine.submit(asked).result]
    const outcomes = await Promise.allSettled(all)
    for (const outcome of outcomes) expect(outcome).toMatchObject({ status: "rejected", reason: { code: "inference_failed" } })
    expect(engine.health()).toMatchObject({ ready: false, running: 0, waiting: 0 })
    expect(() => engine.submit(asked)).toThrow("out of memory")
    expect(engine.pause("wait", true)).rejects.toMatchObject({ code: "inference_failed" })
    expect(engine.score(asked.promptIds)).rejects.toMatchObject({ code: "inference_failed" })
  })

  test("fails a pause and a score that wait behind the failing call", async () => {
    const gate = gated()
    const { engine } = start({
      beforeCall: async (call) => {
        await gate.beforeCall(call)
        if (call === "decode") throw new Error("broken")
      },
    })
    const { result } = engine.submit(asked)
    await gate.arrived()
    const waits = Promise.allSettled([engine.pause("keep", true), engine.score(asked.promptIds), result])
    gate.openForGood()
    for (const outcome of await waits) expect(outcome).toMatchObject({ status: "rejected", reason: { code: "inference_failed" } })
  })

  test("that never answers is given up at the deadline", async () => {
    const { engine } = start({ beforeCall: (call) => (call === "decode" ? new Promise<void>(() => undefined) : undefined) }, { callDeadlineMs: 20 })
    expect(engine.submit(asked).result).rejects.toThrow("no answer to decode in 20 ms")
    await Bun.sleep(40)
    expect(engine.health().ready).toBe(false)
  })
})

test("close fails what is left and returns", async () => {
  const { engine } = start()
  const { result } = engine.submit({ ...asked, maxTokens: 100 })
  const closed = engine.close()
  expect(result).rejects.toMatchObject({ code: "aborted" })
  await closed
  expect(() => engine.submit(asked)).toThrow("closed")
})

test("closing a paused engine returns too", async () => {
  const { engine } = start()
  await engine.pause("keep", true)
  const { result } = engine.submit(asked)
  await engine.close()
  expect(result).rejects.toMatchObject({ code: "aborted" })
})

test("the embedded server speaks the contract of rollouts", async () => {
  const { engine } = start()
  const server = embeddedServer(engine)
  const sampling = { maxTokens: 8, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [], seed: 1 }
  const signal = new AbortController().signal
  const folder = await weightsFolder()
  expect(server.loadWeights({ path: folder, version: 4 })).rejects.toMatchObject({ code: "inference_rejected" })
  await server.pause("wait")
  await server.loadWeights({ path: folder, version: 4 })
  await server.resume()
  const generations = await server.generate({ promptIds: Int32Array.of(1, 2), n: 2, sampling, signal })
  expect(generations.length).toBe(2)
  for (const one of generations) {
    expect(one.logProbs.length).toBe(one.tokenIds.length)
    expect(one.versions).toEqual([[0, 4]])
  }
  expect(await server.health()).toEqual({ ready: true, running: 0, waiting: 0, kvUsage: 0, maxModelLength: 128, version: 4 })
})
