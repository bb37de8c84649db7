import { expect, test } from "bun:test"
import { requestGate } from "./drain.ts"
import { inferenceServer } from "./server.ts"
import type { GenerateRequest } from "./protocol.ts"
import { sglangServer, type SglangOptions } from "./sglang.ts"

const sampling = { maxTokens: 4, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [2], seed: 9 }
const request = (over: Partial<GenerateRequest> = {}): GenerateRequest => ({ promptIds: Int32Array.of(1, 2, 3), n: 1, sampling, signal: new AbortController().signal, ...over })

/** One answer in the documented shape of SGLang's /generate. */
const answer = (over: { finish?: unknown; label?: string; logProbs?: unknown[] } = {}) => ({
  text: "",
  output_ids: [17, 2],
  meta_info: {
    id: "r",
    finish_reason: over.finish ?? { type: "stop", matched: 2 },
    weight_version: over.label ?? "default",
    output_token_logprobs: over.logProbs ?? [[-0.3, 17, null], [-0.1, 2, null]],
  },
})

interface Seen {
  readonly path: string
  readonly body: Record<string, unknown>
}

/** A server that answers the documented routes; `answers` overrides some. */
function startSglang(answers: Record<string, () => unknown> = {}) {
  const seen: Seen[] = []
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    async fetch(request) {
      const path = new URL(request.url).pathname
      const text = await request.text()
      const body = (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>
      seen.push({ path, body })
      const over = answers[path]
      if (over !== undefined) {
        const value = await over()
        return value instanceof Response ? value : Response.json(value)
      }
      if (path === "/generate") {
        const many = Array.isArray((body.input_ids as unknown[])[0])
        return Response.json(many ? (body.input_ids as unknown[]).map(() => answer()) : answer())
      }
      if (path === "/health") return new Response("")
      if (path === "/v1/loads") return Response.json({ loads: [{ num_running_reqs: 3, num_waiting_reqs: 2, token_usage: 0.25 }, { num_running_reqs: 7, num_waiting_reqs: 5, token_usage: 0.5 }] })
      if (path === "/model_info") return Response.json({ model_path: "base", weight_version: "4" })
      if (path === "/v1/models") return Response.json({ data: [{ id: "policy", max_model_len: 4096 }] })
      if (path === "/update_weights_from_disk") return Response.json({ success: true, message: "ok", num_paused_requests: 0 })
      return Response.json({ status: "ok" })
    },
  })
  const connect = (over: Partial<SglangOptions> = {}) =>
    sglangServer({ url: `http://127.0.0.1:${server.port}`, model: "policy", name: "s", retry: { attempts: 2, firstDelayMs: 1, maxDelayMs: 1 }, readNames: async () => new Set(["w"]), ...over })
  return { seen, connect, url: `http://127.0.0.1:${server.port}`, [Symbol.dispose]: () => void server.stop(true) }
}

test("one completion: ids in, every sampling field sent in SGLang's words, ids and log-probs out", async () => {
  using fake = startSglang()
  const [generation] = await fake.connect().generate(request({ cacheSalt: "run" }))
  expect([...generation!.tokenIds]).toEqual([17, 2])
  expect(generation!.logProbs).toEqual(Float32Array.of(-0.3, -0.1))
  expect(generation!.finishReason).toBe("stop")
  expect(generation!.versions).toEqual([[0, 0]])
  expect(fake.seen[0]!.body).toEqual({
    input_ids: [1, 2, 3],
    sampling_params: { n: 1, max_new_tokens: 4, temperature: 1, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1, stop_token_ids: [2], sampling_seed: 9 },
    return_logprob: true,
    logprob_start_len: -1,
    return_text_in_logprobs: false,
    stream: false,
    extra_key: "runv0",
  })
})

test("several completions go as a batch with a seed each", async () => {
  using fake = startSglang()
  expect(await fake.connect().generate(request({ n: 3 }))).toHaveLength(3)
  expect((fake.seen[0]!.body.sampling_params as { sampling_seed: number }[]).map((params) => params.sampling_seed)).toEqual([9, 10, 11])
  expect(fake.seen[0]!.body.input_ids).toEqual([[1, 2, 3], [1, 2, 3], [1, 2, 3]])
})

test("a pause's abort is a result, an abort with a status is a refusal or a fault", async () => {
  using paused = startSglang({ "/generate": () => answer({ finish: { type: "abort", message: "Aborted", status_code: null } }) })
  expect((await paused.connect().generate(request()))[0]!.finishReason).toBe("abort")
  using refused = startSglang({ "/generate": () => answer({ finish: { type: "abort", message: "too long", status_code: 400 } }) })
  await expect(refused.connect().generate(request())).rejects.toMatchObject({ code: "inference_rejected", message: expect.stringContaining("too long") })
})

test("log-probs beside other tokens, or too few of them, are refused", async () => {
  using shifted = startSglang({ "/generate": () => answer({ logProbs: [[-0.3, 17, null], [-0.1, 5, null]] }) })
  await expect(shifted.connect().generate(request())).rejects.toThrow("is of token 5, the token there is 2")
  using short = startSglang({ "/generate": () => answer({ logProbs: [[-0.3, 17, null]] }) })
  await expect(short.connect().generate(request())).rejects.toThrow("2 token ids but 1 log-probs")
})

test("an update under held requests must not flush the cache; after an abort it does", async () => {
  using fake = startSglang()
  const client = fake.connect()
  await client.pause("keep")
  await client.loadWeights({ path: "/shared/policy-v5", version: 5 })
  await client.resume()
  await client.pause("abort")
  await client.loadWeights({ path: "/shared/policy-v6", version: 6 })
  await client.resume()
  expect(fake.seen.map(({ path }) => path)).toEqual(["/pause_generation", "/update_weights_from_disk", "/continue_generation", "/pause_generation", "/update_weights_from_disk", "/continue_generation"])
  expect(fake.seen[0]!.body).toEqual({ mode: "retract" })
  expect(fake.seen[1]!.body).toEqual({ model_path: "/shared/policy-v5", weight_version: "5", flush_cache: false, abort_all_requests: false })
  expect(fake.seen[4]!.body).toMatchObject({ flush_cache: true })
})

test("a load that did not succeed puts the last weights back", async () => {
  let calls = 0
  using fake = startSglang({ "/update_weights_from_disk": () => ((calls += 1) === 1 ? Response.json({ success: false, message: "shape mismatch" }, { status: 400 }) : { success: true }) })
  const client = fake.connect()
  await client.pause("abort")
  await expect(client.loadWeights({ path: "/p", version: 5 })).rejects.toMatchObject({ message: expect.stringContaining("shape mismatch"), details: { recovered: true } })
  expect(fake.seen.at(-1)!.body).toMatchObject({ model_path: "base", weight_version: "0" })
})

test("wait holds new requests back and lets those running end", async () => {
  const release = Promise.withResolvers<void>()
  using fake = startSglang({ "/generate": async () => (await release.promise, answer()) })
  const client = fake.connect()
  const running = client.generate(request())
  while (fake.seen.length === 0) await Bun.sleep(1)
  const pausing = client.pause("wait")
  const held = client.generate(request())
  await Bun.sleep(20)
  expect(fake.seen.map(({ path }) => path)).toEqual(["/generate"])
  release.resolve()
  await running
  await pausing
  expect(fake.seen.map(({ path }) => path)).toEqual(["/generate", "/pause_generation"])
  await client.loadWeights({ path: "/p", version: 7 })
  await client.resume()
  expect((await held)[0]!.versions).toEqual([[0, 0]])
  expect(fake.seen.at(-1)!.body.extra_key).toBe("v7")
})

test("a drain that takes too long says how many still run", async () => {
  let now = 0
  const gate = requestGate("s", { now: () => now, sleep: async (ms) => void (now += ms) })
  const leave = await gate.enter(new AbortController().signal)
  await expect(gate.drained(60_000)).rejects.toMatchObject({ code: "timeout", message: "s: 1 requests still run after 60 s of waiting for them to end" })
  leave()
  await gate.drained(60_000)
  gate.shut()
  const controller = new AbortController()
  const held = gate.enter(controller.signal)
  controller.abort()
  await expect(held).rejects.toMatchObject({ code: "aborted" })
})

test("health sums the ranks and reads version and context length", async () => {
  using fake = startSglang()
  expect(await inferenceServer({ kind: "sglang", url: fake.url, model: "policy" }).health()).toEqual({ ready: true, running: 10, waiting: 7, kvUsage: 0.5, maxModelLength: 4096, version: 4 })
})

test("the factory refuses an unknown kind", () => {
  expect(() => inferenceServer({ kind: "tgi", url: "http://x", model: "m" } as never)).toThrow("kind is 'tgi'")
})
