import { describe, expect, test } from "bun:test"
import { CohortError } from "@cohort/errors"
import type { GenerateRequest, Sampling } from "./protocol.ts"
import { replayServer, type RecordedExchange } from "./testing/replay.ts"
import { vllmServer, type VllmOptions } from "./vllm.ts"

const recorded = async (name: string): Promise<RecordedExchange> => Bun.file(new URL(`../fixtures/vllm/${name}.json`, import.meta.url)).json()

/** Fields of a recorded request that our requests never carry. */
const notOurs = new Set(["stop", "allowed_token_ids", "ignore_eos", "request_id"])

interface SamplingFields {
  readonly n?: number
  readonly max_tokens?: number
  readonly temperature?: number
  readonly top_p?: number
  readonly top_k?: number
  readonly min_p?: number
  readonly repetition_penalty?: number
  readonly stop_token_ids?: readonly number[]
  readonly seed?: number
}

interface WireBody extends SamplingFields {
  readonly prompt?: readonly number[]
  readonly token_ids?: readonly number[]
  readonly sampling_params?: SamplingFields
}

interface WireChoice {
  readonly token_ids: readonly number[]
  readonly finish_reason: string
  readonly logprobs: { readonly token_logprobs?: readonly number[]; readonly content?: readonly { readonly logprob: number }[] }
}

function requestOf(body: WireBody): GenerateRequest {
  const fields = body.sampling_params ?? body
  const sampling: Sampling = {
    maxTokens: fields.max_tokens ?? 1,
    temperature: fields.temperature ?? 1,
    topP: fields.top_p ?? 1,
    topK: fields.top_k ?? 0,
    minP: fields.min_p ?? 0,
    repetitionPenalty: fields.repetition_penalty ?? 1,
    stopTokenIds: fields.stop_token_ids ?? [],
    ...(fields.seed === undefined ? {} : { seed: fields.seed }),
  }
  const ids = body.prompt ?? body.token_ids ?? []
  return { promptIds: Int32Array.from(ids), n: fields.n ?? 1, sampling, signal: new AbortController().signal }
}

async function replay(name: string, options: Partial<VllmOptions> = {}) {
  const exchange = await recorded(name)
  const server = replayServer([exchange])
  const route = exchange.request.path === "/v1/completions" ? "completions" : "generate"
  const client = vllmServer({ url: server.url, model: (exchange.request.body as { model: string }).model, route, retry: { attempts: 2, firstDelayMs: 1, maxDelayMs: 1 }, ...options })
  return { exchange, server, client, request: requestOf(exchange.request.body as WireBody) }
}

describe("recorded generations", () => {
  const good = [
    "020-completions-n4-logprobs",
    "022-completions-greedy-stop-eos",
    "023-completions-stop-string",
    "025-completions-stop-token-id",
    "031-completions-temp05-topk2",
    "040-generate",
    "041-generate-n4",
    "120-inflight-keep-clear-generate",
    "140-inflight-aborted-by-pause-completions",
    "141-inflight-aborted-by-pause-generate",
  ]
  test.each(good)("%s: tokens, log-probs and end come out as recorded, and the request holds the recorded fields", async (name) => {
    const { exchange, server, client, request } = await replay(name)
    using _ = server
    const generations = await client.generate(request)
    const choices = (exchange.response.body as { choices: WireChoice[] }).choices
    expect(generations.map((generation) => [...generation.tokenIds])).toEqual(choices.map((choice) => [...choice.token_ids]))
    expect(generations.map((generation) => generation.logProbs)).toEqual(
      choices.map((choice) => Float32Array.from(choice.logprobs.token_logprobs ?? choice.logprobs.content!.map((entry) => entry.logprob))),
    )
    expect(generations.map((generation) => generation.finishReason as string)).toEqual(choices.map((choice) => choice.finish_reason))
    const sent = server.received.get(`POST ${exchange.request.path}`)?.[0]
    expect(sent).toMatchObject(ours(exchange.request.body as Record<string, unknown>))
  })

  test("a request carries every sampling field, so that no default of the server's model applies", async () => {
    const { server, client, request } = await replay("022-completions-greedy-stop-eos")
    using _ = server
    await client.generate(request)
    expect(Object.keys(server.received.get("POST /v1/completions")![0] as object).toSorted()).toEqual(
      ["logprobs", "max_tokens", "min_p", "model", "n", "prompt", "repetition_penalty", "return_token_ids", "stop_token_ids", "temperature", "top_k", "top_p"],
    )
  })

  test("weight_versions of a request that spans an update become exact spans", async () => {
    const { server, client, request } = await replay("120-inflight-keep-clear-generate")
    using _ = server
    const [generation] = await client.generate(request)
    expect(generation!.versions).toEqual([[0, 1], [30, 2]])
  })

  test("the label default is the version the server was started with", async () => {
    const { server, client, request } = await replay("040-generate", { initialVersion: 7 })
    using _ = server
    const [generation] = await client.generate(request)
    expect(generation!.versions).toEqual([[0, 7]])
  })
})

describe("recorded refusals and faults", () => {
  const refused = ["060-error-context-too-long", "061-error-context-plus-max-tokens", "063-error-unknown-model", "070-error-token-id-out-of-vocab", "075-error-generate-unknown-model", "076-error-generate-too-long"]
  test.each(refused)("%s is inference_rejected with the server's words, asked once", async (name) => {
    const { exchange, server, client, request } = await replay(name)
    using _ = server
    const error = await client.generate(request).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(CohortError)
    expect((error as CohortError).code).toBe("inference_rejected")
    const words = (exchange.response.body as { error: { message: string } }).error.message
    expect((error as CohortError).message).toContain(words)
    expect(server.received.get(`POST ${exchange.request.path}`)).toHaveLength(1)
  })

  test.each(["029-completions-no-token-ids", "078-unknown-field-ignored"])("%s: an answer without token ids is refused", async (name) => {
    const { server, client, request } = await replay(name)
    using _ = server
    await expect(client.generate(request)).rejects.toThrow(/token_ids is null/)
  })

  test("182: a dying engine's 500 is tried again, then inference_failed with its words", async () => {
    const { server, client, request } = await replay("182-crash-3-completion-kills-engine")
    using _ = server
    const error = await client.generate(request).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: "inference_failed", details: { status: 500 } })
    expect((error as CohortError).message).toContain("EngineCore encountered an issue")
    expect(server.received.get("POST /v1/completions")).toHaveLength(2)
  })
})

test("health reads readiness, metrics, label and context length as recorded", async () => {
  const exchanges = await Promise.all(["001-health", "003-models", "110-weight-info", "160-metrics-excerpt"].map(recorded))
  using server = replayServer(exchanges)
  const health = await vllmServer({ url: server.url, model: "policy" }).health()
  expect(health).toEqual({ ready: true, running: 0, waiting: 0, kvUsage: 0, maxModelLength: 2048, version: 2 })
})

test("an update sends the recorded calls", async () => {
  const exchanges = await Promise.all(["103-pause-keep", "105-collective-rpc-reload-weights", "106-update-weight-version", "108-resume"].map(recorded))
  using server = replayServer(exchanges)
  const client = vllmServer({ url: server.url, model: "policy", readNames: async () => new Set(["w"]) })
  await client.pause("keep")
  await client.loadWeights({ path: "MODEL_DIR/models/smol-u2", version: 2 })
  await client.resume()
  expect([...server.received.keys()]).toEqual(exchanges.map((exchange) => `POST ${exchange.request.path}`))
  for (const exchange of exchanges) expect(server.received.get(`POST ${exchange.request.path}`)).toEqual([exchange.request.body])
})

test.each(["143-pause-abort", "146-pause-wait"])("%s is sent as recorded", async (name) => {
  const exchange = await recorded(name)
  using server = replayServer([exchange])
  await vllmServer({ url: server.url, model: "policy" }).pause(name.endsWith("abort") ? "abort" : "wait")
  expect(server.received.get(`POST ${exchange.request.path}`)).toHaveLength(1)
})

function ours(body: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(body)
      .filter(([key]) => !notOurs.has(key))
      .map(([key, value]) => [key, key === "sampling_params" ? ours(value as Record<string, unknown>) : key === "logprobs" ? 0 : value]),
  )
}
