import { expect, test } from "bun:test"
import { join } from "node:path"

import { openEngineTokenizer } from "./tokenizer-adapter.ts"

const folder = join(import.meta.dir, "../../tokenizer/fixtures/bpe")
const tokenizer = openEngineTokenizer(folder, 5000)
const chat = { messages: [{ role: "user", content: "What is 2 + 2?" }], addGenerationPrompt: true, continueFinalMessage: false }
const shown = (ids: Int32Array) => tokenizer.decode(ids, { skipSpecialTokens: false })

test("renders the template of the folder, with the prompt for the answer on request", () => {
  const open = shown(tokenizer.encodeChat(chat))
  const closed = shown(tokenizer.encodeChat({ ...chat, addGenerationPrompt: false }))
  expect(open).toContain("What is 2 + 2?")
  expect(open.startsWith(closed)).toBe(true)
  expect(open.length).toBeGreaterThan(closed.length)
})

test("passes tools to the template", () => {
  const tools = [{ type: "function", function: { name: "add_numbers", description: "Adds.", parameters: { type: "object", properties: {} } } }]
  expect(shown(tokenizer.encodeChat({ ...chat, tools }))).toContain("add_numbers")
})

test("goes on inside the final message", () => {
  const messages = [...chat.messages, { role: "assistant", content: "The answer is" }]
  const text = shown(tokenizer.encodeChat({ messages, addGenerationPrompt: false, continueFinalMessage: true }))
  expect(text).toEndWith("The answer is")
  expect(() => tokenizer.encodeChat({ messages: [{ role: "assistant", content: "" }], addGenerationPrompt: false, continueFinalMessage: true })).toThrow("continue_final_message")
})

test("gives no text to padding rows of the embedding", () => {
  expect(tokenizer.decode([4999], { skipSpecialTokens: false })).toBe("")
  expect(tokenizer.tokenString(4999)).toBe("")
  expect(tokenizer.vocabSize).toBe(5000)
})

test("knows the end tokens of the folder", () => {
  expect(tokenizer.eosTokenIds.length).toBeGreaterThan(0)
})
