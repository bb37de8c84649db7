import { expect, test } from "bun:test"
import type { Message, ToolCall } from "@cohort/env"
import { continuationIds, type EpisodeTokenizer } from "./chat.ts"
import { idsOf, plainTokenizer } from "./testing/plain-tokenizer.ts"

const call: ToolCall = { type: "function", id: "c1", function: { name: "add", arguments: { a: 1 } } }
const tool: Message = { role: "tool", name: "add", content: "2" }
const text = (ids: unknown): string => (ids instanceof Int32Array ? String.fromCharCode(...ids) : JSON.stringify(ids))

/** A template that rewrites history: it drops earlier thinking and writes an empty thought into the last turn only. */
const rewriting: EpisodeTokenizer = {
  ...plainTokenizer,
  encodePrompt: (prompt, tools) => plainTokenizer.encodePrompt(
    typeof prompt === "string" ? prompt : prompt.map((message, index) => (message.role === "assistant" && index === prompt.length - 1 ? { ...message, content: `<think></think>${message.content}` } : message)),
    tools,
  ),
}

test("the delta begins behind the stop token and opens the next turn", () => {
  for (const tokenizer of [plainTokenizer, rewriting]) {
    const generated = Int32Array.from([...idsOf("anything"), 0])
    expect(text(continuationIds(tokenizer, generated, [call], [tool], []))).toBe("\n<tool>2\0\n<assistant>")
    expect(text(continuationIds(tokenizer, generated, [], [{ role: "user", content: "go on" }], []))).toBe("\n<user>go on\0\n<assistant>")
  }
})

test("after a stop token that the template does not write, its own end of turn follows", () => {
  const other = Int32Array.from([...idsOf("x"), 1])
  expect(text(continuationIds(plainTokenizer, other, [call], [tool], []))).toBe("\0\n<tool>2\0\n<assistant>")
  expect(text(continuationIds(plainTokenizer, other, [], [{ role: "user", content: "u" }], []))).toBe("\0\n<user>u\0\n<assistant>")
  const silent: EpisodeTokenizer = { ...plainTokenizer, encodePrompt: (prompt) => Int32Array.of(typeof prompt === "string" ? 1 : prompt[1]!.content.charCodeAt(0)) }
  expect(continuationIds(silent, other, [], [tool], [])).toMatchObject({ kind: "failed", reason: "template_broken" })
})

test("a shape that was seen before costs one rendering, and gives what two would", () => {
  let renders = 0
  const counting: EpisodeTokenizer = { ...plainTokenizer, encodePrompt: (prompt, tools) => (renders++, plainTokenizer.encodePrompt(prompt, tools)) }
  const generated = Int32Array.from([...idsOf("x"), 0])
  const reply = (content: string): Message => ({ ...tool, content })
  for (const content of ["2", "", "a", "aa\0b", "<assistant>"]) {
    const alone = continuationIds({ ...plainTokenizer }, generated, [call], [reply(content)], [])
    renders = 0
    expect(text(continuationIds(counting, generated, [call], [reply(content)], []))).toBe(text(alone))
    expect(renders).toBe(content === "2" ? 2 : 1)
  }
})

test("where the template writes something else before the ending, what is remembered does not count", () => {
  // Each call's id is written before the name of the last call.
  const withIds: EpisodeTokenizer = {
    ...plainTokenizer,
    encodePrompt: (prompt) => Int32Array.from(typeof prompt === "string" ? [] : prompt.flatMap((message) => [...idsOf(`<${message.role}>${message.content}`), ...(message.tool_calls ?? []).flatMap((made) => idsOf(`${made.id}:${made.function.name};`)), 0])),
  }
  const generated = Int32Array.from([0])
  for (const id of ["one", "a", "three"]) expect(text(continuationIds(withIds, generated, [{ ...call, id }], [tool], []))).toBe("<tool>2\0")
})

test("a template that refuses several calls in one turn still ends it and shows every answer", () => {
  const single: EpisodeTokenizer = {
    ...plainTokenizer,
    encodePrompt(prompt, tools) {
      if (typeof prompt !== "string" && prompt.some(({ tool_calls }) => (tool_calls ?? []).length > 1)) throw new Error("only single tool-calls at once")
      return plainTokenizer.encodePrompt(prompt, tools)
    },
  }
  const generated = Int32Array.from([...idsOf("x"), 0])
  expect(text(continuationIds(single, generated, [call, call], [tool, { ...tool, content: "3" }], []))).toBe("\n<tool>2\0\n<tool>3\0\n<assistant>")
  const refusing: EpisodeTokenizer = { ...plainTokenizer, encodePrompt: () => { throw new Error("no tools here") } }
  expect(() => continuationIds(refusing, generated, [call, call], [tool], [])).toThrow("no tools here")
})
