// Tool calls of a chat answer, with the real tokenizer and a runner that says what the test wants.
import { afterEach, expect, test } from "bun:test"
import { join } from "node:path"

import { createEngine } from "../create-engine.ts"
import type { Engine } from "../engine.ts"
import type { ModelRunner } from "../runner.ts"
import { openEngineTokenizer } from "../tokenizer-adapter.ts"
import { createEngineApp } from "./app.ts"

const tokenizer = openEngineTokenizer(join(import.meta.dir, "../../../tokenizer/fixtures/bpe"))
const tools = [{ type: "function", function: { name: "add", description: "Adds two integers", parameters: { type: "object", properties: { a: { type: "integer" } } } } }]
let engine: Engine | undefined
afterEach(() => engine?.close())

/** Draws the tokens of `script` one after the other, whatever the prompt. */
function scriptedRunner(script: readonly number[], promptLength: number): ModelRunner {
  return {
    info: { slots: 1, maxModelLength: 2048, vocabSize: tokenizer.vocabSize, chunkSizes: [1], parameters: 0, dtype: "f32", backend: "script" },
    async prefill() {},
    async decode(inputs, steps) {
      return { steps, tokenIds: Int32Array.from(inputs, (input) => script[input.position + 1 - promptLength]!), logProbs: new Float32Array(inputs.length) }
    },
    async score(ids) {
      return new Float32Array(ids.length)
    },
    async loadWeights() {},
    async close() {},
  }
}

async function answerTo(text: string, extra: object): Promise<{ message: { content: string | null; tool_calls?: { id: string; type: string; function: object }[] }; finish_reason: string; token_ids: number[] }> {
  const messages = [{ role: "user", content: "What is 2 + 3?" }]
  const withTools = "tools" in extra ? { tools } : {}
  const prompt = tokenizer.encodeChat({ messages, addGenerationPrompt: true, continueFinalMessage: false, ...withTools })
  const script = [...tokenizer.encode(text, { addSpecialTokens: false }), tokenizer.eosTokenIds[0]!]
  engine = createEngine({ runner: scriptedRunner(script, prompt.length), tokenizer, modelName: "policy", now: () => 0, random: Math.random })
  const app = createEngineApp({ engine, now: () => 0, random: Math.random })
  const body = JSON.stringify({ messages, return_token_ids: true, ...extra })
  const answer = await app.request("/v1/chat/completions", { method: "POST", headers: { "content-type": "application/json" }, body })
  expect(answer.status).toBe(200)
  const choice = ((await answer.json()) as { choices: Awaited<ReturnType<typeof answerTo>>[] }).choices[0]!
  expect(choice.token_ids).toEqual(script)
  return choice
}

const call = 'Let me see.\n<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>'

test("a call is parsed out of the text and ends with tool_calls; the ids keep all of it", async () => {
  const choice = await answerTo(call, { tools })
  expect(choice.finish_reason).toBe("tool_calls")
  expect(choice.message.content?.trim()).toBe("Let me see.")
  expect(choice.message.tool_calls).toEqual([{ id: expect.stringMatching(/^chatcmpl-tool-[0-9a-f]{16}$/), type: "function", function: { name: "add", arguments: expect.any(String) } }])
  expect(JSON.parse((choice.message.tool_calls![0]!.function as { arguments: string }).arguments)).toEqual({ a: 2 })
})

test("without tools, or with none to choose, the text stays text", async () => {
  const plain = await answerTo(call, {})
  expect(plain.finish_reason).toBe("stop")
  expect(plain.message.content).toContain('"name": "add"')
  await engine?.close()
  const none = await answerTo(call, { tools, tool_choice: "none" })
  expect(none.message.tool_calls).toBeUndefined()
})

test("an answer without a call stays an ordinary answer", async () => {
  const choice = await answerTo("The answer is 5.", { tools })
  expect([choice.finish_reason, choice.message.content, choice.message.tool_calls]).toEqual(["stop", "The answer is 5.", undefined])
})
