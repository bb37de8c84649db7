import { afterEach, expect, test } from "bun:test"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

import { vllmServer } from "@cohort/inference"

import { createEngine } from "./create-engine.ts"
import { serveEngine } from "./serve.ts"
import { createByteTokenizer, createHashRunner, type HashRunnerOptions } from "./testing/index.ts"

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

async function start(options: HashRunnerOptions = {}) {
  const runner = createHashRunner({ vocabSize: 258, maxModelLength: 256, ...options })
  const engine = createEngine({ runner, tokenizer: createByteTokenizer(), modelName: "policy", now: Date.now, random: Math.random, version: 0 })
  cleanups.push(() => engine.close())
  const server = await serveEngine({ engine, port: 0 })
  cleanups.push(() => server.close())
  return { engine, server, runner }
}

async function weightsFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "cohort-engine-"))
  cleanups.push(() => rm(folder, { recursive: true }))
  // A safetensors file without tensors: eight bytes of header length, then the header.
  const header = new TextEncoder().encode("{}      ")
  const file = new Uint8Array(8 + header.length)
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true)
  file.set(header, 8)
  await writeFile(join(folder, "model.safetensors"), file)
  return folder
}

const slow = { beforeCall: () => Bun.sleep(5), chunkSizes: [1] }
const post = (url: string, body: object, signal?: AbortSignal) =>
  fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), ...(signal === undefined ? {} : { signal }) })
const long = { prompt: [1, 2, 3], max_tokens: 200, temperature: 1, ignore_eos: true }

async function until(what: () => boolean): Promise<void> {
  const deadline = Date.now() + 3000
  while (!what()) {
    if (Date.now() > deadline) throw new Error(`never happened: ${what}`)
    await Bun.sleep(2)
  }
}

test("names the port that is taken", async () => {
  const { engine, server } = await start()
  expect(serveEngine({ engine, port: server.port })).rejects.toMatchObject({ code: "port_in_use", message: expect.stringContaining(String(server.port)) })
})

test.each([false, true])("a client that leaves ends its request (stream: %p)", async (stream) => {
  const { engine, server } = await start(slow)
  const leaving = new AbortController()
  const answer = post(`${server.url}/v1/completions`, { ...long, stream }, leaving.signal)
  answer.catch(() => undefined)
  await until(() => engine.health().running === 1)
  if (stream) {
    const reader = (await answer).body!.getReader()
    await reader.read()
  }
  leaving.abort()
  await until(() => engine.health().running === 0)
  expect(engine.metrics().counters.finished.abort).toBe(1)
})

test("a stream sends tokens before the end", async () => {
  const { engine, server } = await start(slow)
  const answer = await post(`${server.url}/v1/completions`, { ...long, max_tokens: 30, stream: true })
  const reader = answer.body!.getReader()
  const first = new TextDecoder().decode((await reader.read()).value)
  expect(first).toStartWith("data: {")
  expect(engine.health().running).toBe(1)
  while (!(await reader.read()).done);
})

test("a dead engine says 503 on health and errors on everything else, in streams too", async () => {
  let calls = 0
  const { server } = await start({
    chunkSizes: [1],
    beforeCall: (call) => {
      if (call === "decode" && ++calls > 3) throw new Error("device lost")
    },
  })
  const text = await (await post(`${server.url}/v1/completions`, { ...long, stream: true })).text()
  expect(text).toContain('data: {"error":{"message":"The model runner failed: device lost"')
  expect(text).toEndWith("data: [DONE]\n\n")
  expect((await fetch(`${server.url}/health`)).status).toBe(503)
  const answer = await post(`${server.url}/v1/completions`, long)
  expect([answer.status, ((await answer.json()) as { error: { type: string } }).error.type]).toEqual([500, "InternalServerError"])
})

test("the vLLM client of @cohort/inference generates, pauses, loads and sees exact versions", async () => {
  const { server } = await start({ beforeCall: () => Bun.sleep(1), chunkSizes: [1] })
  const client = vllmServer({ url: server.url, model: "policy" })
  cleanups.push(() => client.close())
  const sampling = { maxTokens: 60, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [], seed: 11 }
  const signal = new AbortController().signal
  const pending = client.generate({ promptIds: Int32Array.of(1, 2, 3), n: 3, sampling, signal })
  await Bun.sleep(20)
  await client.pause("keep")
  await client.loadWeights({ path: await weightsFolder(), version: 5 })
  await client.resume()
  const generations = await pending
  expect(generations.length).toBe(3)
  for (const one of generations) {
    expect(one.logProbs.length).toBe(one.tokenIds.length)
    expect(one.versions[0]).toEqual([0, 0])
    expect(one.finishReason === "stop" || one.versions.length === 2).toBe(true)
    if (one.versions.length === 2) expect(one.versions[1]![1]).toBe(5)
  }
  const again = await client.generate({ promptIds: Int32Array.of(1, 2, 3), n: 1, sampling, signal })
  expect(again[0]!.versions).toEqual([[0, 5]])
  expect(await client.health()).toEqual({ ready: true, running: 0, waiting: 0, kvUsage: 0, maxModelLength: 256, version: 5 })
})
