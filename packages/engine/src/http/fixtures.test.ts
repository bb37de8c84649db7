// The recorded exchanges with a real vLLM, asked again of this server: same status, same shape, same words where they are fixed.
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

import type { Hono } from "hono"

import { createEngine } from "../create-engine.ts"
import type { Engine } from "../engine.ts"
import { createByteTokenizer, createHashRunner } from "../testing/index.ts"
import { createEngineApp } from "./app.ts"

interface Exchange {
  readonly request: { readonly method: string; readonly path: string; readonly headers?: Record<string, string>; readonly body?: Record<string, unknown>; readonly body_raw?: string }
  readonly response: { readonly status: number; readonly headers: Record<string, string>; readonly body: unknown }
}

const folder = join(import.meta.dir, "../../fixtures/vllm")
const files = readdirSync(folder).filter((name) => name.endsWith(".json")).toSorted()
const read = (name: string) => JSON.parse(readFileSync(join(folder, name), "utf8")) as Exchange
const find = (number: string) => read(files.find((name) => name.startsWith(number))!)

let engine: Engine
let app: Hono
/** Slows the runner, so that a request is still under way when a test acts. */
let pauseMs = 0

beforeAll(() => {
  const vocabSize = 152_000
  const runner = createHashRunner({ vocabSize, drawnIds: 256, maxModelLength: 2048, slots: 8, chunkSizes: [1, 4], beforeCall: () => (pauseMs > 0 ? Bun.sleep(pauseMs) : undefined) })
  engine = createEngine({ runner, tokenizer: createByteTokenizer({ vocabSize }), modelName: "policy", now: () => 0, random: () => 0.25 })
  app = createEngineApp({ engine, now: () => 1_700_000_000_000, random: Math.random })
})
afterAll(() => engine.close())

async function ask({ request }: Exchange): Promise<Response> {
  const { method, path, headers, body, body_raw: raw } = request
  const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body))
  return await app.request(path, { method, headers: sent === undefined ? {} : { "content-type": "application/json", ...headers }, ...(sent === undefined ? {} : { body: sent }) })
}

/** Keys whose values are maps from token or id, not fields; only their values' shape counts. */
const isMap = (path: string) => /top_logprobs\.\d+$|prompt_logprobs\.\d+$/.test(path)
/** Values that this engine may leave null, as the protocol allows. */
const mayBeNull = /\.rank$/

/** Differences of keys and types, as sentences. Lists are compared by their first items; null meets anything only where allowed. */
function differences(theirs: unknown, ours: unknown, path = ""): string[] {
  if (mayBeNull.test(path) && ours === null) return []
  const kind = (value: unknown) => (value === null ? "null" : Array.isArray(value) ? "list" : typeof value)
  if (kind(theirs) !== kind(ours)) return [`${path}: ${kind(theirs)} there, ${kind(ours)} here`]
  if (Array.isArray(theirs) && Array.isArray(ours)) {
    if ((theirs.length === 0) !== (ours.length === 0)) return [`${path}: ${theirs.length} items there, ${ours.length} here`]
    return theirs.slice(0, 2).flatMap((item, index) => (index < ours.length ? differences(item, ours[index], `${path}.${index}`) : []))
  }
  if (kind(theirs) !== "object") return []
  const [left, right] = [theirs as Record<string, unknown>, ours as Record<string, unknown>]
  if (isMap(path)) {
    if (kind(Object.values(left)[0]) !== "object") return differences(Object.values(left)[0], Object.values(right)[0], `${path}.0`)
    return differences(Object.values(left)[0], Object.values(right)[0], `${path}.token`)
  }
  const missing = Object.keys(left).filter((key) => !(key in right)).map((key) => `${path}.${key}: missing here`)
  const extra = Object.keys(right).filter((key) => !(key in left)).map((key) => `${path}.${key}: not there`)
  return [...missing, ...extra, ...Object.keys(left).flatMap((key) => (key in right ? differences(left[key], right[key], `${path}.${key}`) : []))]
}

const events = (text: string) =>
  text
    .split("\n\n")
    .filter((part) => part !== "")
    .map((part) => part.replace(/^data: /, ""))

describe("answers have the recorded status and shape", () => {
  const plain = ["001", "002", "003", "004", "005", "006", "007", "010", "011", "012", "057"]
  const completions = ["020", "021", "026", "027", "028", "029", "030", "031", "032", "033", "035", "077", "078"]
  const generate = ["040", "041", "042", "044"]
  const chat = ["050", "051", "056"]
  const control = ["103", "104", "106", "110", "107", "108", "148", "150", "151"]
  for (const number of [...plain, ...completions, ...generate, ...chat, ...control])
    test(files.find((name) => name.startsWith(number))!, async () => {
      const exchange = find(number)
      const answer = await ask(exchange)
      expect(answer.status).toBe(exchange.response.status)
      if (typeof exchange.response.body === "string") expect(await answer.text()).toBe(exchange.response.body)
      else expect(differences(exchange.response.body, await answer.json())).toEqual([])
    })
})

test("the label of the weights is the one that was set", async () => {
  await ask(find("106"))
  expect(await (await ask(find("110"))).json()).toEqual({ weight_version: "2" })
  engine.setVersion("default")
})

describe("errors have the recorded status and words", () => {
  const longPrompt = Array.from({ length: 2100 }, () => 5)
  const exceptions: Record<string, (exchange: Exchange) => Exchange> = {
    // The recording shortened these prompts.
    "060": (one) => ({ ...one, request: { ...one.request, body: { ...one.request.body, prompt: longPrompt } } }),
    "076": (one) => ({ ...one, request: { ...one.request, body: { ...one.request.body, token_ids: longPrompt } } }),
  }
  const numbers = ["058", "060", "061", "062", "063", "064", "065", "066", "067", "068", "069", "070", "071", "072", "073", "074", "075", "076", "079", "080", "082", "084", "085", "086", "087", "088", "152"]
  for (const number of numbers)
    test(files.find((name) => name.startsWith(number))!, async () => {
      const exchange = exceptions[number]?.(find(number)) ?? find(number)
      const answer = await ask(exchange)
      expect(answer.status).toBe(exchange.response.status)
      expect(await answer.json()).toEqual(exchange.response.body)
    })

  for (const number of ["081", "083"])
    test(`${number}: the same object around our own reason`, async () => {
      const exchange = find(number)
      const answer = await ask(exchange)
      const body = (await answer.json()) as { error: { message: string } }
      expect(answer.status).toBe(500)
      expect(differences(exchange.response.body, body)).toEqual([])
      expect(body.error.message).toStartWith("Call to collective_rpc method failed: Worker failed with error '")
      expect(body.error.message).not.toContain("does-not-exist")
    })
})

describe("streams send the recorded events", () => {
  for (const number of ["034", "043"])
    test(files.find((name) => name.startsWith(number))!, async () => {
      const exchange = find(number)
      const answer = await ask(exchange)
      expect(answer.headers.get("content-type")).toBe(exchange.response.headers["content-type"]!)
      const theirs = events(exchange.response.body as string)
      const ours = events(await answer.text())
      expect(ours.at(-1)).toBe("[DONE]")
      const parse = (all: string[]) => all.slice(0, -1).map((event) => JSON.parse(event) as Record<string, unknown>)
      const [first, ...more] = [parse(theirs), parse(ours)].map((all) => all.filter((event) => (event.choices as { finish_reason?: unknown }[])[0]?.finish_reason === null))
      expect(differences(first![0], more[0]![0])).toEqual([])
      const last = [parse(theirs), parse(ours)].map((all) => all.at(-1))
      expect(differences(last[0], last[1])).toEqual([])
    })

  test("text offsets go on from chunk to chunk, per choice", async () => {
    const ours = events(await (await ask(find("034"))).text()).slice(0, -2).map((event) => JSON.parse(event) as { choices: { index: number; logprobs: { text_offset: number[]; tokens: string[] } }[] })
    const ends = new Map<number, number>()
    for (const { choices } of ours)
      for (const { index, logprobs } of choices)
        logprobs.tokens.forEach((token, at) => {
          expect(logprobs.text_offset[at]).toBe(ends.get(index) ?? 0)
          ends.set(index, logprobs.text_offset[at]! + token.length)
        })
    expect(ends.size).toBe(2)
  })

  test("a reader that stops reading ends every prompt of the request", async () => {
    const { request } = find("027")
    const answer = await ask({ ...find("027"), request: { ...request, body: { ...request.body, max_tokens: 1500, stream: true, ignore_eos: true } } })
    const reader = answer.body!.getReader()
    await reader.read()
    expect(engine.health().running).toBe(4)
    await reader.cancel()
    expect(engine.health()).toMatchObject({ running: 0, waiting: 0 })
  })

  test("chat: role first with the prompt's ids, then text, then the reason", async () => {
    const body = { ...find("050").request.body, stream: true, logprobs: false, top_logprobs: null }
    const answer = await ask({ ...find("050"), request: { ...find("050").request, body } })
    const ours = events(await answer.text())
    const theirs = events(find("055").response.body as string)
    expect(differences(JSON.parse(theirs[0]!), JSON.parse(ours[0]!))).toEqual([])
    expect(differences(JSON.parse(theirs[1]!), { ...JSON.parse(ours[1]!), choices: [{ ...JSON.parse(ours[1]!).choices[0], delta: {} }] })).toEqual([])
    expect(JSON.parse(ours.at(-2)!).choices[0]).toMatchObject({ finish_reason: "length", stop_reason: null })
    expect(ours.at(-1)).toBe("[DONE]")
  })
})

describe("requests in flight", () => {
  /** Asks, does something while the request runs, and gives the answer's body. */
  async function during(number: string, act: () => Promise<unknown>): Promise<unknown> {
    const before = engine.metrics().counters.generationTokens
    pauseMs = 2
    const pending = ask(find(number))
    while (engine.metrics().counters.generationTokens === before) await Bun.sleep(1)
    await act()
    pauseMs = 0
    return await (await pending).json()
  }

  test("140: a pause with abort ends both completions with their tokens", async () => {
    const body = (await during("140", () => engine.pause("abort", true))) as { choices: { finish_reason: string; token_ids: number[]; logprobs: { tokens: string[] } }[] }
    engine.resume()
    expect(differences(find("140").response.body, body)).toEqual([])
    expect(body.choices.map((choice) => choice.finish_reason)).toEqual(["abort", "abort"])
    for (const choice of body.choices) expect(choice.logprobs.tokens.length).toBe(choice.token_ids.length)
  })

  test("147: only the id with the prompt's index aborts", async () => {
    const body = (await during("147", async () => {
      await ask(find("148"))
      expect(engine.health().running).toBe(1)
      await ask(find("149"))
    })) as { id: string; choices: { finish_reason: string }[] }
    expect(body.id).toBe("cmpl-roll-7")
    expect(body.choices[0]!.finish_reason).toBe("abort")
  })

  test("120: a change of label under way shows as two spans that meet", async () => {
    engine.setVersion(1)
    const body = (await during("120", async () => {
      await engine.pause("keep", true)
      engine.setVersion(2)
      engine.resume()
    })) as { choices: { token_ids: number[]; weight_versions: { version: string; start: number; end: number }[] }[] }
    engine.setVersion("default")
    expect(differences(find("120").response.body, body)).toEqual([])
    const [first, second] = body.choices[0]!.weight_versions
    expect(first).toMatchObject({ version: "1", start: 0, end: second!.start })
    expect(second).toMatchObject({ version: "2", end: 60 })
  })
})

test("the metrics that a trainer reads are there under their names", async () => {
  const answer = await ask(find("160"))
  expect(answer.headers.get("content-type")).toBe(find("160").response.headers["content-type"]!)
  const text = await answer.text()
  const names = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "num_preemptions_total", "prefix_cache_queries_total", "prefix_cache_hits_total", "prompt_tokens_total", "generation_tokens_total"]
  for (const name of names) expect(text).toMatch(new RegExp(`^vllm:${name}\\{engine="0",model_name="policy"\\} [0-9.]+$`, "m"))
  expect(text).toMatch(/^vllm:request_success_total\{engine="0",finished_reason="length",model_name="policy"\} [0-9.]+$/m)
})

test("what the engine cannot honour is refused, not ignored", async () => {
  for (const [name, value] of Object.entries({ presence_penalty: 0.5, logit_bias: { "5": 1 }, allowed_token_ids: [1], structured_outputs: { regex: "a" }, echo: true, prompt_logprobs: 5 })) {
    const answer = await app.request("/v1/completions", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ prompt: [1], max_tokens: 1, [name]: value }) })
    expect([name, answer.status]).toEqual([name, 400])
    expect(((await answer.json()) as { error: { param: string } }).error.param).toBe(name)
  }
})

test("a key guards every route but health", async () => {
  const guarded = createEngineApp({ engine, now: () => 0, random: () => 0, apiKey: "secret" })
  expect((await guarded.request("/health")).status).toBe(200)
  const refused = await guarded.request("/pause", { method: "POST" })
  expect([refused.status, await refused.json()]).toEqual([401, { error: "Unauthorized" }])
  expect((await guarded.request("/is_paused", { headers: { authorization: "Bearer secret" } })).status).toBe(200)
})

test("a body over the limit is refused", async () => {
  const small = createEngineApp({ engine, now: () => 0, random: () => 0, maxBodyBytes: 100 })
  const answer = await small.request("/v1/completions", { method: "POST", headers: { "content-type": "application/json", "content-length": "500" }, body: JSON.stringify({ prompt: "a".repeat(480) }) })
  expect(answer.status).toBe(413)
})
