import { expect, test } from "bun:test"
import type { Environment, EnvironmentFactory, ToolSet } from "@cohort/env"
import { CohortError } from "@cohort/errors"
import { type Episode, type EpisodeLimits, type EpisodeResult, runEpisode, runSharedEpisodes, type TurnMode } from "./episode.ts"
import type { RolloutFailure } from "./generation.ts"
import { seededRandom } from "./random.ts"
import { idsOf, plainTokenizer } from "./testing/plain-tokenizer.ts"
import { createSimulatedServer, type SimulatedServerOptions } from "./testing/simulated-server.ts"
import { createVirtualClock } from "./testing/virtual-clock.ts"

const sampling = { maxTokens: 64, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [0], seed: 100 }

/** Runs one rollout against a server that answers with `words` in turn. */
async function play(
  words: readonly string[],
  environment?: EnvironmentFactory,
  over: { readonly limits?: Partial<EpisodeLimits>; readonly server?: Partial<SimulatedServerOptions>; readonly prompt?: string; readonly signal?: AbortSignal; readonly turnMode?: TurnMode } = {},
) {
  const clock = createVirtualClock()
  let turn = 0
  const server = createSimulatedServer({ clock, seed: 1, complete: () => ({ tokenIds: [...idsOf(words[turn++] ?? "?"), 0] }), ...over.server })
  const logged: string[] = []
  const result = await clock.run(runEpisode({
    tokenizer: plainTokenizer, server, clock, log: (message) => logged.push(message), sampling, rolloutId: "g0.0.1", member: 0,
    row: { id: "r", prompt: over.prompt ?? "hi", answer: 7 }, random: seededRandom(1), signal: over.signal ?? new AbortController().signal,
    limits: { maxModelLength: 1000, maxTurns: 4, generateTimeoutMs: 5000, toolTimeoutMs: 1000, environmentTimeoutMs: 500, episodeTimeoutMs: 20_000, forkThresholdTokens: 1024, ...over.limits },
    ...(environment === undefined ? {} : { environment }),
    ...(over.turnMode === undefined ? {} : { turnMode: over.turnMode }),
  }))
  return { result, server, clock, logged }
}
const episodeOf = (result: EpisodeResult): Episode => {
  if (result.kind === "failed") throw new Error(`${result.reason}: ${result.error}`)
  return result.episode
}
const failureOf = (result: EpisodeResult): RolloutFailure => {
  if (result.kind !== "failed") throw new Error("the rollout finished")
  return result
}
const withTools = (tools: ToolSet, rest: Partial<Environment> = {}): EnvironmentFactory => () => ({ reset: () => undefined, tools, ...rest })
const text = (ids: Int32Array): string => String.fromCharCode(...ids).replaceAll("\0", "|")

test("single turn: plain prompt in, prompt and answer out", async () => {
  const { result, server } = await play(["yes"])
  const episode = episodeOf(result)
  expect(episode.rows.map(({ tokenIds }) => text(tokenIds))).toEqual(["hiyes|"])
  expect(episode.rows[0]!.lossMask.join("")).toBe("001111")
  expect(episode).toMatchObject({ text: "yes", turns: 1, finishReason: "stop", truncated: false })
  expect(server.requests[0]!.sampling.seed).toBe(100)
})

test("tools: generated ids stay, results are appended as context in one row, the tokens are those of the template", async () => {
  const add = { description: "adds", run: ({ a, b }: { readonly a?: number; readonly b?: number }) => (a ?? 0) + (b ?? 0) }
  const { result, server } = await play([`call add {"a": 3,"b": 4}`, "7"], withTools({ add }))
  const episode = episodeOf(result)
  expect(episode.rows).toHaveLength(1)
  expect(text(episode.rows[0]!.tokenIds)).toBe(`[add]<user>hi|\n<assistant>call add {"a": 3,"b": 4}|\n<tool>7|\n<assistant>7|`)
  const trained = text(episode.rows[0]!.tokenIds.filter((_, i) => episode.rows[0]!.lossMask[i] === 1))
  expect(trained).toBe(`call add {"a": 3,"b": 4}|7|`)
  expect(text(episode.completionIds)).toBe(trained)
  expect(episode).toMatchObject({ turns: 2, toolCalls: 1, toolFailures: 0 })
  expect(episode.completion.map(({ role }) => role)).toEqual(["assistant", "tool", "assistant"])
  expect(server.requests[1]!.sampling.seed).toBe(101)
})

test("whatever a model writes wrong in a call goes back to it as an error text", async () => {
  const tools: ToolSet = {
    fail: { description: "", run: () => Promise.reject(new Error("out of order")) },
    slow: { description: "", run: () => new Promise<never>(() => undefined) },
    strict: { description: "", run: () => 1, input: { "~standard": { version: 1, vendor: "t", validate: () => ({ issues: [{ message: "is required", path: ["b"] }] }) } } },
  }
  const { result } = await play(["call nothing {}", "call fail", "call slow", "call strict {}", "call strict {half", "call constructor", "done"], withTools(tools), { limits: { maxTurns: 9 } })
  const episode = episodeOf(result)
  const errors = episode.completion.filter(({ role }) => role === "tool").map(({ content }) => JSON.parse(content).error)
  expect(errors[0]).toBe('unknown tool "nothing"; available: fail, slow, strict')
  expect(errors[1]).toBe("out of order")
  expect(errors[2]).toBe("tool slow took longer than 1000 ms")
  expect(errors[3]).toBe("b: is required")
  expect(errors[4]).toContain("JSON")
  expect(errors[5]).toContain('unknown tool "constructor"')
  expect(episode).toMatchObject({ toolCalls: 6, toolFailures: 6, text: "done" })
})

test("turns are bounded: the last turn's call is not run and the rollout counts as truncated", async () => {
  let runs = 0
  const tools: ToolSet = { go: { description: "", run: () => ++runs } }
  const { result } = await play(["call go", "call go", "call go"], withTools(tools), { limits: { maxTurns: 2 } })
  expect(episodeOf(result)).toMatchObject({ turns: 2, truncated: true, toolCalls: 1 })
  expect(runs).toBe(1)
})

test("a turn cut by length ends the rollout in the middle of its call", async () => {
  const { result } = await play([`call go {"a":1}`], withTools({ go: { description: "", run: () => 1 } }), {
    server: { complete: () => ({ tokenIds: idsOf("call go"), finishReason: "length" }) },
  })
  expect(episodeOf(result)).toMatchObject({ turns: 1, truncated: true, finishReason: "length", toolCalls: 0 })
})

test("the environment speaks when no tool was called, observes at reset, scores, and is closed", async () => {
  const seen: string[] = []
  const environment: EnvironmentFactory = () => ({
    reset: () => " (observed)",
    respond: ({ text, turn }) => {
      seen.push(`${turn}:${text}`)
      return turn === 0 ? { messages: [{ role: "user", content: "again" }] } : { done: true }
    },
    score: () => 0.5,
    close: () => {
      seen.push("closed")
      return Promise.resolve()
    },
  })
  const episode = episodeOf((await play(["one", "two"], environment)).result)
  expect(text(episode.rows[0]!.tokenIds)).toBe("<user>hi (observed)|\n<assistant>one|\n<user>again|\n<assistant>two|")
  expect(seen).toEqual(["0:one", "1:two", "closed"])
  expect(episode.environmentScore).toEqual({ kind: "ok", value: 0.5 })
})

test("an environment that refuses, throws or hangs fails its rollout by name, and is closed", async () => {
  let closed = 0
  const close = () => {
    closed++
    return Promise.resolve()
  }
  const broken: Record<string, EnvironmentFactory> = {
    "could not be made: no sandbox": () => {
      throw new Error("no sandbox")
    },
    "reset: refused": () => ({ reset: () => Promise.reject(new Error("refused")), close }),
    "respond: third step": () => ({ reset: () => undefined, respond: () => Promise.reject(new Error("third step")), close }),
    "environment reset took longer than 500 ms": () => ({ reset: () => new Promise(() => undefined), close }),
  }
  for (const [words, factory] of Object.entries(broken)) {
    const failure = failureOf((await play(["a"], factory)).result)
    expect(failure).toMatchObject({ reason: "environment_failed", retryable: true })
    expect(failure.error).toContain(words)
  }
  expect(closed).toBe(3)
})

test("a score that throws is a failed reward, a close that throws or hangs is logged", async () => {
  const environment = (): Environment => ({ reset: () => undefined, score: () => Promise.reject(new Error("judge is down")), close: () => new Promise(() => undefined) })
  const { result, logged, clock } = await play(["a"], environment)
  expect(episodeOf(result).environmentScore).toMatchObject({ kind: "failed", error: expect.stringContaining("judge is down") })
  expect(logged).toEqual(["rollout g0.0.1: environment close failed: environment close took longer than 500 ms"])
  expect(clock.pending).toBe(0)
})

test("the window: requests are cut to the room left; no room at the start is a reason, later it ends the rollout", async () => {
  const { server } = await play(["yes"], undefined, { limits: { maxModelLength: 10 } })
  expect(server.requests[0]!.sampling.maxTokens).toBe(8)
  const long = failureOf((await play(["yes"], undefined, { prompt: "x".repeat(10), limits: { maxModelLength: 10 } })).result)
  expect(long).toMatchObject({ reason: "prompt_too_long", retryable: false, error: "10 prompt tokens leave no room in a window of 10" })
  const capped = await play(["yes"], undefined, { prompt: "x".repeat(10), limits: { maxPromptTokens: 9 } })
  expect(failureOf(capped.result)).toMatchObject({ reason: "prompt_too_long", retryable: false, error: "10 prompt tokens; maxPromptTokens is 9" })
  expect(capped.server.requests).toEqual([])
  const tools: ToolSet = { page: { description: "", run: () => "y".repeat(500) } }
  const later = episodeOf((await play(["call page"], withTools(tools), { limits: { maxModelLength: 200, maxPromptTokens: 50 } })).result)
  expect(later).toMatchObject({ truncated: true, turns: 1, toolCalls: 1 })
})

test("what a server returns wrong is a failure with its reason", async () => {
  const broken: readonly [SimulatedServerOptions["after"], string][] = [
    [(all) => all.map((one) => ({ ...one, logProbs: one.logProbs.slice(1) })), "generation_invalid"],
    [(all) => all.map((one) => ({ ...one, logProbs: one.logProbs.fill(Number.NaN) })), "generation_invalid"],
    [(all) => all.map((one) => ({ ...one, logProbs: one.logProbs.fill(Number.NEGATIVE_INFINITY) })), "generation_invalid"],
    [(all) => all.map((one) => ({ ...one, versions: [] })), "generation_invalid"],
    [(all) => all.map((one) => ({ ...one, versions: [[0, -1]] })), "generation_invalid"],
    [(all) => all.map((one) => ({ ...one, finishReason: "abort" })), "generation_aborted"],
    [() => [], "inference_failed"],
    [(all) => all.map((one) => ({ ...one, tokenIds: new Int32Array(0), logProbs: new Float32Array(0) })), "empty_completion"],
  ]
  for (const [after, reason] of broken) expect(failureOf((await play(["yes"], undefined, { server: { after: after! } })).result).reason).toBe(reason as RolloutFailure["reason"])
})

test("a rollout is bounded as a whole, and aborted from outside", async () => {
  const slow: EnvironmentFactory = () => ({ reset: () => undefined, respond: () => ({ messages: [{ role: "user", content: "more" }] }) })
  const limits = { maxTurns: 1_000_000, maxModelLength: 1_000_000, episodeTimeoutMs: 700 }
  expect(failureOf((await play([], slow, { limits })).result)).toMatchObject({ reason: "episode_timeout", retryable: true })
  const stopped = await play(["a"], slow, { signal: AbortSignal.abort(new CohortError("aborted", "the worker stops")) })
  expect(failureOf(stopped.result)).toMatchObject({ reason: "aborted", retryable: false, error: "the worker stops" })
})

test("shared episodes: one request for the group, each member checked by itself", async () => {
  const clock = createVirtualClock()
  const server = createSimulatedServer({ clock, seed: 1, after: ([first, ...rest]) => [{ ...first!, finishReason: "abort" }, ...rest] })
  const results = await clock.run(runSharedEpisodes({
    tokenizer: plainTokenizer, server, clock, log: () => undefined, sampling, row: { id: "r", prompt: "hi" }, signal: new AbortController().signal,
    limits: { maxModelLength: 1000, maxTurns: 1, generateTimeoutMs: 5000, toolTimeoutMs: 1, environmentTimeoutMs: 1, episodeTimeoutMs: 1, forkThresholdTokens: 1 },
    members: [{ member: 0, rolloutId: "a" }, { member: 1, rolloutId: "b" }, { member: 2, rolloutId: "c" }],
  }))
  expect(server.requests.map(({ n }) => n)).toEqual([3])
  expect(results.map(({ kind }) => kind)).toEqual(["failed", "finished", "finished"])
  expect(episodeOf(results[2]!)).toMatchObject({ rolloutId: "c", member: 2 })
})

test("rendered again each turn, a rewritten call forks or realigns as the threshold says; appended it stays as it was", async () => {
  const add = { description: "adds", run: () => 7 }
  const words = [`call add {"a": 3,"b": 4}`, "7"]
  const appended = episodeOf((await play(words, withTools({ add }))).result)
  expect(appended).toMatchObject({ tally: { transitions: 1, clean: 1, fork: 0 }, endedBy: "stop" })
  const realigned = episodeOf((await play(words, withTools({ add }), { turnMode: "messages" })).result)
  expect(realigned.tally).toMatchObject({ clean: 0, realign: 1, fork: 0 })
  expect(text(realigned.rows[0]!.tokenIds)).toContain(`call add {"a":3,"b":4}`)
  const forked = episodeOf((await play(words, withTools({ add }), { turnMode: "messages", limits: { forkThresholdTokens: 2 } })).result)
  expect(forked.tally).toMatchObject({ fork: 1 })
  expect(forked.rows.map((row) => text(row.tokenIds.filter((_, i) => row.lossMask[i] === 1)))).toEqual([`call add {"a": 3,"b": 4}|`, "7|"])
})

test("tool rounds and tokens in all are bounded, each with its reason", async () => {
  const look = { description: "", run: () => "seen" }
  const words = ["call look", "call look", "call look", "done"]
  const none = episodeOf((await play(words, withTools({ look }), { limits: { maxToolRounds: 0 } })).result)
  expect(none).toMatchObject({ turns: 1, toolCalls: 0, endedBy: "toolRounds", truncated: true })
  const two = episodeOf((await play(words, withTools({ look }), { limits: { maxToolRounds: 2 } })).result)
  expect(two).toMatchObject({ turns: 3, toolCalls: 2, endedBy: "toolRounds" })
  const { result, server } = await play(words, withTools({ look }), { limits: { maxEpisodeTokens: 15 } })
  expect(episodeOf(result)).toMatchObject({ turns: 2, endedBy: "episodeTokens", finishReason: "length", truncated: true })
  expect(server.requests.map(({ sampling: { maxTokens } }) => maxTokens)).toEqual([15, 5])
  const exact = episodeOf((await play(words, withTools({ look }), { limits: { maxEpisodeTokens: 20 } })).result)
  expect(exact).toMatchObject({ turns: 2, endedBy: "episodeTokens", truncated: true })
  const spoken = episodeOf((await play(["a"], () => ({ reset: () => undefined, respond: () => ({ done: true }) }))).result)
  expect(spoken).toMatchObject({ endedBy: "environment", truncated: false })
})
