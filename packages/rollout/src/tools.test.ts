import { expect, test } from "bun:test"
import { methodsAsTools, type Environment, type Message, type PromptRow, type ToolCall, type ToolSet } from "@cohort/env"
import type { EpisodeTokenizer, ParsedAssistant } from "./chat.ts"
import { type Episode, runEpisode } from "./episode.ts"
import { seededRandom } from "./random.ts"
import { createSimulatedServer } from "./testing/simulated-server.ts"
import { idsOf, plainTokenizer } from "./testing/plain-tokenizer.ts"
import { createVirtualClock } from "./testing/virtual-clock.ts"
import { runTools } from "./tools.ts"

const ctx = { signal: new AbortController().signal, random: () => 0.5, log: () => undefined }
const call = (name: string, args: ToolCall["function"]["arguments"] = {}): ToolCall => ({ type: "function", function: { name, arguments: args } })
const limits = { clock: createVirtualClock(), toolTimeoutMs: 1000 }

/** One rollout of an environment whose model says `words` turn after turn, read by `parse`. */
async function play(environment: Environment, words: readonly string[], over: { readonly parse?: (text: string) => ParsedAssistant; readonly row?: Partial<PromptRow> } = {}): Promise<Episode> {
  const clock = createVirtualClock()
  let turn = 0
  const server = createSimulatedServer({ clock, seed: 1, complete: () => ({ tokenIds: [...idsOf(words[turn++] ?? "?"), 0] }) })
  const tokenizer: EpisodeTokenizer = { ...plainTokenizer, ...(over.parse === undefined ? {} : { parseAssistant: (ids) => over.parse!(plainTokenizer.decode(ids)) }) }
  const result = await clock.run(runEpisode({
    tokenizer, server, clock, log: () => undefined, rolloutId: "r", member: 0, row: { id: "r", prompt: "hi", ...over.row }, random: seededRandom(1), signal: ctx.signal, environment: () => environment,
    sampling: { maxTokens: 64, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [0] },
    limits: { maxModelLength: 1000, maxTurns: 4, generateTimeoutMs: 5000, toolTimeoutMs: 1000, environmentTimeoutMs: 500, episodeTimeoutMs: 20_000, forkThresholdTokens: 1024 },
  }))
  if (result.kind === "failed") throw new Error(result.error)
  return result.episode
}

test("calls of one turn are answered in the order written, the unreadable ones among them, however long each takes", async () => {
  const { clock } = limits
  const tools: ToolSet = {
    slow: { description: "", run: async () => (await clock.sleep(500), "slow") },
    quick: { description: "", run: () => "quick" },
  }
  const message: Message = { role: "assistant", content: "", tool_calls: [{ ...call("slow"), id: "a" }, call("quick"), call("slow")] }
  const errors = [{ error: "first", callsBefore: 0 }, { error: "between", callsBefore: 2 }, { error: "last", callsBefore: 3 }]
  const run = await clock.run(runTools({ message, text: "", callErrors: errors }, tools, ctx, limits))
  expect(run.messages.map(({ content }) => content)).toEqual(['{"error":"first"}', "slow", "quick", '{"error":"between"}', "slow", '{"error":"last"}'])
  expect(run.messages[1]).toMatchObject({ role: "tool", name: "slow", tool_call_id: "a" })
  expect(run).toMatchObject({ calls: 6, failures: 3 })
})

test("a tool's own deadline comes before the run's, also where it is longer", async () => {
  const { clock } = limits
  const wait = (timeoutMs: number): ToolSet => ({ wait: { description: "", timeoutMs, run: async () => (await clock.sleep(1500), "back") } })
  const message: Message = { role: "assistant", content: "", tool_calls: [call("wait")] }
  const text = async (timeoutMs: number): Promise<string> => (await clock.run(runTools({ message, text: "" }, wait(timeoutMs), ctx, limits))).messages[0]!.content
  expect(await text(200)).toBe('{"error":"tool wait took longer than 200 ms"}')
  expect(await text(2000)).toBe("back")
})

test("what a tool gives is text to the model, also what JSON has no words for", async () => {
  const results: readonly unknown[] = ["as it is", { a: [1] }, 0, null, undefined, () => 1, 1n]
  const texts: string[] = []
  for (const result of results) {
    const tools: ToolSet = { give: { description: "", run: () => result as never } }
    texts.push((await limits.clock.run(runTools({ message: { role: "assistant", content: "", tool_calls: [call("give")] }, text: "" }, tools, ctx, limits))).messages[0]!.content)
  }
  expect(texts.slice(0, 6)).toEqual(["as it is", '{"a":[1]}', "0", "null", "null", "null"])
  expect(JSON.parse(texts[6]!)).toEqual({ error: expect.stringContaining("BigInt") })
})

test("methods of an environment are its tools through a whole rollout, and its state is its score", async () => {
  class Vault implements Environment {
    #digits: number[] = []
    closed = 0
    readonly tools = methodsAsTools(this, { dial: { description: "Dials a digit.", parameters: { type: "object", properties: { digit: { type: "integer" } } } }, open: { description: "Tries the handle." } })
    reset() {
      return " Open it."
    }
    dial({ digit }: { readonly digit?: number }) {
      if (typeof digit !== "number") throw new Error("digit is missing")
      this.#digits.push(digit)
    }
    async open() {
      return this.#digits.join("") === "42" ? "open" : "shut"
    }
    score() {
      return this.#digits.length
    }
    close() {
      this.closed++
    }
  }
  const vault = new Vault()
  const episode = await play(vault, [`call dial {"digit":4}`, "call dial {}", `call dial {"digit":2}`, "done"])
  expect(episode.completion.filter(({ role }) => role === "tool").map(({ content }) => content)).toEqual(["null", '{"error":"digit is missing"}', "null"])
  expect(episode).toMatchObject({ environmentScore: { kind: "ok", value: 2 }, toolCalls: 3, toolFailures: 1, endedBy: "stop" })
  expect(vault.closed).toBe(1)
})

test("an empty list of calls is no call: the environment speaks, or the rollout ends", async () => {
  const parse = (text: string): ParsedAssistant => ({ message: { role: "assistant", content: text, tool_calls: [] }, text, callErrors: [] })
  const tools: ToolSet = { go: { description: "", run: () => 1 } }
  expect(await play({ tools, reset: () => undefined }, ["one"], { parse })).toMatchObject({ turns: 1, toolCalls: 0, endedBy: "stop" })
  const spoken = await play({ tools, reset: () => undefined, respond: ({ turn }) => (turn === 0 ? { messages: [{ role: "user", content: "go on" }] } : { done: true }) }, ["one", "two"], { parse })
  expect(spoken).toMatchObject({ turns: 2, endedBy: "environment" })
})

test("what reset says goes on in the last message of the user, wherever that stands; messages follow; without any prompt it is the prompt", async () => {
  const opening = async (prompt: PromptRow["prompt"], says: string | readonly Message[]): Promise<Episode["prompt"]> => (await play({ reset: () => says }, ["ok"], { row: { prompt } })).prompt
  const [system, user, assistant]: readonly Message[] = [{ role: "system", content: "s" }, { role: "user", content: "u" }, { role: "assistant", content: "a" }]
  expect(await opening([system!, user!, assistant!], "+")).toEqual([system!, { role: "user", content: "u+" }, assistant!])
  expect(await opening([system!], "+")).toEqual([system!, { role: "user", content: "+" }])
  expect(await opening([user!], [assistant!])).toEqual([user!, assistant!])
  expect(await opening("", "+")).toEqual([{ role: "user", content: "+" }])
  await expect(play({ reset: () => undefined }, ["ok"], { row: { prompt: [] } })).rejects.toThrow("the row has no prompt, and the environment's reset gave none")
})

test("a turn cut by the server's window, by the rollout's tokens or by the turn's own limit says which", async () => {
  const cut = async (limitsOf: { readonly maxModelLength?: number; readonly maxEpisodeTokens?: number }, maxTokens: number) => {
    const clock = createVirtualClock()
    const server = createSimulatedServer({ clock, seed: 1, complete: () => ({ tokenIds: idsOf("x".repeat(50)) }) })
    const result = await clock.run(runEpisode({
      tokenizer: plainTokenizer, server, clock, log: () => undefined, rolloutId: "r", member: 0, row: { id: "r", prompt: "hi" }, random: seededRandom(1), signal: ctx.signal,
      sampling: { maxTokens, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [0] },
      limits: { maxModelLength: 1000, maxTurns: 4, generateTimeoutMs: 5000, toolTimeoutMs: 1000, environmentTimeoutMs: 500, episodeTimeoutMs: 20_000, forkThresholdTokens: 1024, ...limitsOf },
    }))
    return result.kind === "finished" ? [result.episode.endedBy, result.episode.finishReason, result.episode.completionIds.length, result.episode.truncated] : result.reason
  }
  expect(await cut({}, 10)).toEqual(["length", "length", 10, true])
  expect(await cut({ maxModelLength: 8 }, 10)).toEqual(["window", "length", 6, true])
  expect(await cut({ maxEpisodeTokens: 7 }, 10)).toEqual(["episodeTokens", "length", 7, true])
  expect(await cut({ maxModelLength: 2 }, 10)).toBe("prompt_too_long")
})
