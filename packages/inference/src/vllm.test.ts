import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { mkdtemp, rm, writeFile, mkdir } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { GenerateRequest, Sampling } from "./protocol.ts"
import { fakeToken, startFakeServer } from "./testing/index.ts"
import { vllmServer, type VllmOptions } from "./vllm.ts"

const sampling: Sampling = { maxTokens: 8, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [], seed: 3 }
const request = (over: Partial<GenerateRequest> = {}): GenerateRequest => ({ promptIds: Int32Array.of(1, 2, 3), n: 1, sampling, signal: new AbortController().signal, ...over })
const retry = { attempts: 2, firstDelayMs: 1, maxDelayMs: 2 }
const connect = (url: string, over: Partial<VllmOptions> = {}) => vllmServer({ url, model: "policy", name: "a", retry, ...over })

let dir = ""
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "cohort-inference-"))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

/** Smallest weights folder: one F32 tensor per name. */
async function weights(name: string, tensors: readonly string[] = ["w"]): Promise<string> {
  const folder = join(dir, name)
  await mkdir(folder, { recursive: true })
  const header = JSON.stringify(Object.fromEntries(tensors.map((tensor, i) => [tensor, { dtype: "F32", shape: [1], data_offsets: [i * 4, i * 4 + 4] }])))
  const bytes = Buffer.alloc(8 + header.length + tensors.length * 4)
  bytes.writeBigUInt64LE(BigInt(header.length))
  bytes.write(header, 8)
  await writeFile(join(folder, "model.safetensors"), bytes)
  return folder
}

describe("generation", () => {
  test("n completions: child i is drawn with seed + i", async () => {
    await using fake = await startFakeServer()
    const generations = await connect(fake.url).generate(request({ n: 3 }))
    expect(fake.requests.map(({ path }) => path)).toEqual(["/version", "/inference/v1/generate"])
    generations.forEach((generation, i) => {
      const tokens = Array.from({ length: 8 }, (_, position) => fakeToken([1, 2, 3], 3 + i, position, "default", 256))
      expect([...generation.tokenIds]).toEqual(tokens.map((token) => token.id))
      expect(generation.logProbs).toEqual(Float32Array.from(tokens, (token) => token.logProb))
    })
  })

  test("the version is asked for once; older servers and those without scale-out get /v1/completions", async () => {
    await using old = await startFakeServer({ version: "0.28.0" })
    const client = connect(old.url)
    await client.generate(request())
    await client.generate(request())
    expect(old.requests.map(({ path }) => path)).toEqual(["/version", "/v1/completions", "/v1/completions"])

    await using closed = await startFakeServer({ scaleOut: false })
    const second = connect(closed.url)
    const [generation] = await second.generate(request())
    await second.generate(request())
    expect(closed.requests.map(({ path }) => path)).toEqual(["/version", "/inference/v1/generate", "/v1/completions", "/v1/completions"])
    expect(generation!.versions).toEqual([[0, 0]])
  })

  test("an unknown model is a refusal, not a missing route", async () => {
    await using fake = await startFakeServer({ model: "other" })
    await expect(connect(fake.url).generate(request())).rejects.toMatchObject({ code: "inference_rejected", details: { status: 404, field: "model" } })
    expect(fake.requests.map(({ path }) => path)).toEqual(["/version", "/inference/v1/generate"])
  })

  test("the salt reaches the server", async () => {
    await using fake = await startFakeServer()
    await connect(fake.url, { route: "completions" }).generate(request({ cacheSalt: "v3" }))
    expect(fake.requests[0]!.body).toMatchObject({ cache_salt: "v3", logprobs: 0, return_token_ids: true })
  })

  test("temperatures that vLLM would raise silently are refused", async () => {
    await expect(connect("http://127.0.0.1:1").generate(request({ sampling: { ...sampling, temperature: 0.005 } }))).rejects.toThrow("sampling.temperature is 0.005")
  })

  test("abort and close end a running generation, and the server sees the client go", async () => {
    await using fake = await startFakeServer({ tokenMs: 20 })
    const controller = new AbortController()
    const client = connect(fake.url, { route: "generate" })
    const first = client.generate(request({ signal: controller.signal, sampling: { ...sampling, maxTokens: 500 } }))
    const second = client.generate(request({ sampling: { ...sampling, maxTokens: 500 } }))
    setTimeout(() => controller.abort(), 40)
    await expect(first).rejects.toMatchObject({ code: "aborted" })
    await client.close()
    await expect(second).rejects.toMatchObject({ code: "aborted" })
    while (fake.engine.running > 0) await Bun.sleep(5)
    expect(fake.disconnects).toBe(2)
  })
})

describe("weights", () => {
  test("an update under a running request: exact spans on generate, the older version on completions", async () => {
    await using fake = await startFakeServer({ tokenMs: 10 })
    const client = connect(fake.url, { route: "generate" })
    const older = connect(fake.url, { route: "completions", name: "b" })
    const path = await weights("v1")
    const running = Promise.all([client, older].map((one) => one.generate(request({ sampling: { ...sampling, maxTokens: 20 } }))))
    while (fake.engine.running < 2) await Bun.sleep(2)
    await Bun.sleep(40)
    await client.pause("keep")
    await client.loadWeights({ path, version: 1 })
    await client.resume()
    const [exact, kept] = (await running).map(([generation]) => generation!.versions)
    expect(exact).toHaveLength(2)
    expect(exact![0]).toEqual([0, 0])
    expect(exact![1]![1]).toBe(1)
    expect(exact![1]![0]).toBeGreaterThan(0)
    expect(kept).toEqual([[0, 0]])
    expect((await client.generate(request()))[0]!.versions).toEqual([[0, 1]])
    expect(fake.requests.find(({ path }) => path === "/pause")!.query).toBe("?mode=keep&clear_cache=true")
  })

  test("a request sent into the pause is of the version after it, also without labels", async () => {
    await using fake = await startFakeServer({ version: "0.28.0" })
    fake.fail("/update_weight_version", { kind: "status", status: 404, body: { detail: "Not Found" } })
    const client = connect(fake.url)
    await client.pause("keep")
    const waiting = client.generate(request())
    while (fake.engine.waiting === 0) await Bun.sleep(2)
    await client.loadWeights({ path: await weights("v5"), version: 5 })
    await client.resume()
    expect((await waiting)[0]!.versions).toEqual([[0, 5]])
    expect((await client.health()).version).toBe(5)
  })

  test("loading is refused while the server runs, before any call", async () => {
    await using fake = await startFakeServer()
    await expect(connect(fake.url).loadWeights({ path: await weights("v1"), version: 1 })).rejects.toThrow("not paused")
    expect(fake.requests).toEqual([])
  })

  test("a missing, empty or incomplete folder never reaches the server", async () => {
    await using fake = await startFakeServer()
    const client = connect(fake.url)
    await client.pause("keep")
    await client.loadWeights({ path: await weights("whole", ["a", "b", "c"]), version: 1 })
    const calls = fake.requests.length
    await expect(client.loadWeights({ path: join(dir, "nowhere"), version: 2 })).rejects.toMatchObject({ code: "file_invalid" })
    await mkdir(join(dir, "empty"), { recursive: true })
    await expect(client.loadWeights({ path: join(dir, "empty"), version: 2 })).rejects.toThrow("no .safetensors file")
    await expect(client.loadWeights({ path: await weights("other", ["a", "x"]), version: 2 })).rejects.toThrow(/missing b, c; unexpected x/)
    const cut = await weights("cut", ["a", "b", "c"])
    await writeFile(join(cut, "model.safetensors"), Buffer.from(await Bun.file(join(cut, "model.safetensors")).arrayBuffer()).subarray(0, -4))
    await expect(client.loadWeights({ path: cut, version: 2 })).rejects.toThrow(/header tells of/)
    expect(fake.requests).toHaveLength(calls)
    await client.resume()
    expect((await client.generate(request()))[0]!.versions).toEqual([[0, 1]])
  })

  test("a failed load puts the last good weights back by itself, and the server lives on", async () => {
    await using fake = await startFakeServer()
    const client = connect(fake.url)
    const good = await weights("good")
    await client.pause("keep")
    await client.loadWeights({ path: good, version: 1 })
    fake.fail("/collective_rpc", { kind: "status", status: 500, body: { error: { message: "Worker failed with error 'no space'" } } })
    await expect(client.loadWeights({ path: await weights("next"), version: 2 })).rejects.toMatchObject({
      code: "inference_failed",
      message: expect.stringMatching(/version 2 .*no space.*runs on version 1 again/),
      details: { recovered: true },
    })
    expect(fake.engine.folder).toBe(good)
    await client.resume()
    expect((await client.generate(request()))[0]!.versions).toEqual([[0, 1]])
    expect(fake.dead).toBe(false)
  })

  test("before the first load, the last good weights are those it was started from", async () => {
    await using fake = await startFakeServer({ root: "org/model" })
    const client = connect(fake.url)
    await client.pause("keep")
    fake.fail("/collective_rpc", { kind: "status", status: 500 })
    await expect(client.loadWeights({ path: await weights("v1"), version: 1 })).rejects.toMatchObject({ details: { recovered: true } })
    expect(fake.engine.folder).toBe("org/model")
  })

  test("when nothing can be loaded, nothing is sent until one load succeeded: no request kills the worker", async () => {
    await using fake = await startFakeServer()
    const client = connect(fake.url)
    await client.pause("keep")
    // The server sees another disk than we do: both folders are missing there.
    const astray = connect(fake.url, { pathOnServer: (path) => `${path}-elsewhere` })
    await astray.pause("keep")
    fake.fail("/v1/models", { kind: "status", status: 404 })
    await expect(astray.loadWeights({ path: await weights("v1"), version: 1 })).rejects.toMatchObject({ details: { recovered: false } })
    expect(fake.engine.poisoned).toBe(true)
    await expect(astray.resume()).rejects.toThrow(/resume refused/)
    await expect(astray.generate(request())).rejects.toThrow(/generate refused/)
    expect(fake.requests.filter(({ path }) => path === "/resume" || path.includes("generate"))).toEqual([])
    await client.loadWeights({ path: await weights("v1"), version: 1 })
    await client.resume()
    await client.generate(request())
    expect(fake.dead).toBe(false)
  })

  test("the fake dies like vLLM when a request follows a failed load", async () => {
    await using fake = await startFakeServer()
    await fetch(`${fake.url}/collective_rpc`, { method: "POST", body: JSON.stringify({ method: "reload_weights", kwargs: { weights_path: join(dir, "nowhere") } }) })
    await expect(connect(fake.url, { route: "generate" }).generate(request())).rejects.toThrow()
    expect(fake.dead).toBe(true)
  })

  test("resume is refused while a load runs", async () => {
    await using fake = await startFakeServer()
    const client = connect(fake.url)
    await client.pause("keep")
    fake.fail("/collective_rpc", { kind: "delay", ms: 50 })
    const loading = client.loadWeights({ path: await weights("v1"), version: 1 })
    await expect(client.resume()).rejects.toThrow("is loading version 1")
    await loading
    await client.resume()
  })

  test("a server without dev mode refuses the update and keeps its weights", async () => {
    await using fake = await startFakeServer()
    const client = connect(fake.url)
    await client.pause("keep")
    fake.fail("/collective_rpc", { kind: "status", status: 404, body: { detail: "Not Found" } })
    await expect(client.loadWeights({ path: await weights("v1"), version: 1 })).rejects.toMatchObject({ code: "inference_rejected", hint: expect.stringContaining("VLLM_SERVER_DEV_MODE") })
    await client.resume()
    expect((await client.generate(request()))[0]!.versions).toEqual([[0, 0]])
  })
})

describe("pause and health", () => {
  test("abort ends running requests with what they have; wait lets them end", async () => {
    await using fake = await startFakeServer({ tokenMs: 10 })
    const client = connect(fake.url, { route: "generate" })
    const cut = client.generate(request({ n: 2, sampling: { ...sampling, maxTokens: 500 } }))
    while (fake.engine.running === 0) await Bun.sleep(2)
    await Bun.sleep(30)
    await client.pause("abort")
    for (const generation of await cut) {
      expect(generation.finishReason).toBe("abort")
      expect(generation.tokenIds.length).toBe(generation.logProbs.length)
    }
    await client.resume()
    const whole = client.generate(request())
    while (fake.engine.running === 0) await Bun.sleep(2)
    await client.pause("wait")
    expect((await whole)[0]!.finishReason).toBe("length")
  })

  test("a paused server does not use up the request's time", async () => {
    await using fake = await startFakeServer({ tokenMs: 10 })
    const client = connect(fake.url, { route: "generate", requestTimeoutMs: 200 })
    const running = client.generate(request())
    while (fake.engine.running === 0) await Bun.sleep(2)
    await client.pause("keep")
    await Bun.sleep(300)
    await client.resume()
    expect((await running)[0]!.tokenIds).toHaveLength(8)
  })

  test("health: not ready on 503, an error when nobody answers, the label of a restarted server", async () => {
    await using fake = await startFakeServer()
    const client = connect(fake.url)
    fake.fail("/health", { kind: "status", status: 503 })
    expect(await client.health()).toMatchObject({ ready: false })
    await client.pause("keep")
    await client.loadWeights({ path: await weights("v3"), version: 3 })
    await client.resume()
    expect(await client.health()).toEqual({ ready: true, running: 0, waiting: 0, kvUsage: 0, maxModelLength: 2048, version: 3 })
    fake.engine.version = "default"
    expect((await client.health()).version).toBe(0)
    await fake.close()
    await expect(client.health()).rejects.toMatchObject({ code: "inference_unreachable" })
  })

  test("a wrong address is a configuration error", () => {
    expect(() => connect("localhost:8000")).toThrow("inference server url is 'localhost:8000'")
  })

  test("the key is sent, a wrong one is a refusal with a hint", async () => {
    await using fake = await startFakeServer({ apiKey: "right" })
    await connect(fake.url, { apiKey: "right" }).generate(request())
    await expect(connect(fake.url, { apiKey: "wrong" }).generate(request())).rejects.toMatchObject({ code: "inference_rejected", hint: expect.stringContaining("API key") })
  })
})
