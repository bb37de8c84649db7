import { expect, test } from "bun:test"
import { isCohortError } from "@cohort/errors"
import { serverPool } from "./pool.ts"
import type { GenerateRequest } from "./protocol.ts"
import { replayServer, type RecordedExchange } from "./testing/replay.ts"
import { vllmServer } from "./vllm.ts"

const recorded = async (name: string): Promise<RecordedExchange> => Bun.file(new URL(`../fixtures/vllm/${name}.json`, import.meta.url)).json()
const codeOf = async (act: Promise<unknown>): Promise<string> => act.then(() => "none", (error: unknown) => (isCohortError(error) ? error.code : String(error)))

async function served(...names: readonly string[]) {
  const exchanges = await Promise.all(names.map(recorded))
  const replay = replayServer(exchanges)
  const client = vllmServer({ url: replay.url, model: "policy", name: "a", route: "completions", retry: { attempts: 1 }, pathOnServer: (path) => `/mnt${path}` })
  return { replay, client }
}

/** The request of recording 203. */
async function request(): Promise<GenerateRequest> {
  const body = (await recorded("203-lora-probe-v1")).request.body as { readonly prompt: readonly number[]; readonly max_tokens: number }
  const sampling = { maxTokens: body.max_tokens, temperature: 0, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [] }
  return { promptIds: Int32Array.from(body.prompt), n: 1, sampling, signal: new AbortController().signal }
}
const load = { path: "/run/policy-v7", version: 7, adapter: "policy-v7.ab12" }

test("an adapter is loaded by name and path as the server sees it; then requests name it, and their tokens are of its version", async () => {
  const { replay, client } = await served("201-load-lora-v1", "203-lora-probe-v1", "210-unload-lora-v1")
  using _ = replay
  await client.loadWeights(load)
  expect(replay.received.get("POST /v1/load_lora_adapter")).toEqual([{ lora_name: "policy-v7.ab12", lora_path: "/mnt/run/policy-v7" }])
  const [generation] = await client.generate(await request())
  expect(replay.received.get("POST /v1/completions")).toMatchObject([{ model: "policy-v7.ab12" }])
  expect(generation!.versions).toEqual([[0, 7]])
  expect(generation!.logProbs[0]).toBeCloseTo(-1.8734022378921509, 6)
  // What is in use may be left: the weights without it are then served.
  expect(await client.unloadAdapter!("policy-v7.ab12")).toBe(true)
  expect((await client.generate(await request()))[0]!.versions).toEqual([[0, 0]])
  expect((replay.received.get("POST /v1/completions")!.at(-1) as { model: string }).model).toBe("policy")
})

test("a request in flight stays on its adapter, which is not unloaded under it", async () => {
  const probe = await recorded("203-lora-probe-v1")
  const gate = Promise.withResolvers<void>()
  const models: string[] = []
  const server = Bun.serve({
    port: 0, hostname: "127.0.0.1",
    async fetch(call) {
      const { pathname } = new URL(call.url)
      if (pathname !== "/v1/completions") return new Response("Success")
      models.push(((await call.json()) as { model: string }).model)
      if (models.length === 1) await gate.promise
      return Response.json(probe.response.body)
    },
  })
  const client = vllmServer({ url: `http://127.0.0.1:${server.port}`, model: "policy", route: "completions" })
  await client.loadWeights(load)
  const first = client.generate(await request())
  while (models.length === 0) await Bun.sleep(1)
  await client.loadWeights({ path: "/run/policy-v8", version: 8, adapter: "policy-v8.ab12" })
  expect((await client.generate(await request()))[0]!.versions).toEqual([[0, 8]])
  expect(await client.unloadAdapter!("policy-v7.ab12")).toBe(false)
  gate.resolve()
  expect((await first)[0]!.versions).toEqual([[0, 7]])
  expect(await client.unloadAdapter!("policy-v7.ab12")).toBe(true)
  expect(models).toEqual(["policy-v7.ab12", "policy-v8.ab12"])
  await server.stop(true)
})

test("one that is there already is served; one that cannot be read is refused with what the server needs, and nothing changes", async () => {
  const again = await served("204-load-lora-v1-again", "203-lora-probe-v1")
  await again.client.loadWeights(load)
  expect((await again.client.generate(await request()))[0]!.versions).toEqual([[0, 7]])
  again.replay[Symbol.dispose]()

  const missing = await served("205-load-lora-missing-path", "203-lora-probe-v1", "211-unload-lora-unknown")
  const error: unknown = await missing.client.loadWeights(load).catch((thrown: unknown) => thrown)
  expect(isCohortError(error) && error.code).toBe("inference_rejected")
  expect(isCohortError(error) && [error.message, error.hint].join(" ")).toMatch(/policy-v7.ab12 of version 7.*No adapter found.*VLLM_ALLOW_RUNTIME_LORA_UPDATING/s)
  expect((await missing.client.generate(await request()))[0]!.versions).toEqual([[0, 0]])
  // A server that was started again has forgotten it by itself.
  expect(await missing.client.unloadAdapter!("policy-v7.ab12")).toBe(true)
  missing.replay[Symbol.dispose]()
})

test("a server that lost its adapter is set aside by the pool, and gets it again before it is used", async () => {
  const unknown = await recorded("212-unloaded-lora-request")
  const probe = await recorded("203-lora-probe-v1")
  let lost = false
  let loads = 0
  const server = Bun.serve({
    port: 0, hostname: "127.0.0.1",
    fetch(call) {
      const { pathname } = new URL(call.url)
      if (pathname === "/v1/load_lora_adapter") {
        loads++
        lost = false
        return new Response("Success")
      }
      if (pathname === "/v1/models") return Response.json({ data: [{ id: "policy", max_model_len: 2048 }] })
      if (pathname !== "/v1/completions") return new Response("")
      return lost ? Response.json(unknown.response.body, { status: unknown.response.status }) : Response.json(probe.response.body)
    },
  })
  const client = vllmServer({ url: `http://127.0.0.1:${server.port}`, model: "policy", name: "a", route: "completions", retry: { attempts: 1 } })
  const changes: string[] = []
  const pool = serverPool([client], { now: () => performance.now(), probeAfterMs: 1, onChange: (message) => changes.push(message) })
  await pool.members[0]!.loadWeights(load)
  lost = true
  expect((await pool.generate(await request()))[0]!.versions).toEqual([[0, 7]])
  expect(loads).toBe(2)
  expect(changes[0]).toContain("has no policy-v7.ab12 any more")
  await server.stop(true)
  expect(await codeOf(client.loadWeights({ ...load, version: 8, adapter: "x" }))).toBe("inference_unreachable")
})
