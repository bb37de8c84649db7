import { describe, expect, test } from "bun:test"
import type { Message } from "@cohort/env"
import { Template } from "@huggingface/jinja"
import { bpeFolder, errorOf, folderOf, parity } from "../test/fixtures.ts"
import { toolDefinitions } from "./tool-definitions.ts"
import { openTokenizer } from "./tokenizer.ts"

const json = parity.usesMerges.json
const user: Message = { role: "user", content: "x" }
const tools = toolDefinitions({ add: { description: "Adds.", run: () => 0 } })

describe("where templates are found", () => {
  const open = (files: Record<string, string | object>) => folderOf({ "tokenizer.json": json, ...files })

  test("text in the config", () => {
    using folder = open({ "tokenizer_config.json": { chat_template: "config {{ messages[0].content }}" } })
    expect(openTokenizer(folder.path).renderChat([user])).toBe("config x")
  })

  test("a list in the config: tool_use when tools are given, else default", () => {
    const list = [
      { name: "default", template: "plain" },
      { name: "tool_use", template: "{{ tools[0].function.name }}" },
    ]
    using folder = open({ "tokenizer_config.json": { chat_template: list } })
    const tokenizer = openTokenizer(folder.path)
    expect(tokenizer.renderChat([user])).toBe("plain")
    expect(tokenizer.renderChat([user], { tools })).toBe("add")
  })

  test("a file wins over the config, a given template over both", () => {
    using folder = open({
      "tokenizer_config.json": { chat_template: "config" },
      "chat_template.jinja": "file",
      "additional_chat_templates/tool_use.jinja": "{{ tools | length }} tools",
    })
    expect(openTokenizer(folder.path).renderChat([user])).toBe("file")
    expect(openTokenizer(folder.path).renderChat([user], { tools })).toBe("1 tools")
    expect(openTokenizer(folder.path, { chatTemplate: "given" }).renderChat([user])).toBe("given")
  })

  test("none: plain prompts work, messages are refused", () => {
    using folder = open({ "tokenizer_config.json": { chat_template: null } })
    const tokenizer = openTokenizer(folder.path)
    expect(tokenizer.hasChatTemplate).toBeFalse()
    expect([...tokenizer.encodePrompt("x")]).toEqual([0])
    expect(errorOf(() => tokenizer.encodePrompt([user])).message).toContain("has no chat template")
  })

  test("another shape is refused", () => {
    using folder = open({ "tokenizer_config.json": { chat_template: [{ name: "default" }] } })
    expect(errorOf(() => openTokenizer(folder.path)).message).toContain("chat_template is")
  })
})

test("special tokens reach the template as text, also when the config holds objects", () => {
  using folder = folderOf({ "tokenizer.json": parity.bos.json, "tokenizer_config.json": { bos_token: { content: "<s>" }, chat_template: "{{ bos_token }}" } })
  expect(openTokenizer(folder.path).renderChat([user])).toBe("<s>")
})

test("no tools and no documents are none to the template, as in transformers", () => {
  const chatTemplate = "{{ tools is none }} {{ documents is none }} {{ tools is defined }}"
  expect(openTokenizer(bpeFolder, { chatTemplate }).renderChat([user])).toBe("true true true")
})

test("reasoning reaches templates under the name they know", () => {
  const text = openTokenizer(bpeFolder).renderChat([user, { role: "assistant", content: "y", reasoning: "why" }])
  expect(text).toContain("<think>\nwhy\n</think>")
})

test("reasoning before the last user turn goes, that of the running tool chain stays", () => {
  const call: Message = { role: "assistant", content: "", reasoning: "bbb", tool_calls: [{ type: "function", function: { name: "add", arguments: {} } }] }
  const text = openTokenizer(bpeFolder).renderChat([user, { role: "assistant", content: "1", reasoning: "aaa" }, user, call, { role: "tool", content: "3" }])
  expect(text).not.toContain("aaa")
  expect(text).toContain("bbb")
})

describe("what would be lost in silence is refused", () => {
  test("tools that the template does not show", () => {
    const tokenizer = openTokenizer(bpeFolder, { chatTemplate: "{{ messages[0].content }}" })
    expect(errorOf(() => tokenizer.renderChat([user], { tools })).message).toContain("does not show tools")
  })

  test("a template that raises, one that is broken, a chat of nothing", () => {
    const raising = openTokenizer(bpeFolder, { chatTemplate: "{{ raise_exception('roles must alternate') }}" })
    expect(errorOf(() => raising.renderChat([user])).message).toContain("roles must alternate")
    expect(errorOf(() => openTokenizer(bpeFolder, { chatTemplate: "{% if %}" }).renderChat([user])).code).toBe("tokenizer_invalid")
    expect(errorOf(() => openTokenizer(bpeFolder).renderChat([])).message).toContain("no messages")
  })
})

// Where the JavaScript engine is known to differ from Python's Jinja; a change of either shows here.
const knownDifferences: Readonly<Record<string, string>> = {
  '{{ x }} {"x":true}': "true",
  '{{ x }} {"x":null}': "",
  '{{ x }} {"x":{"a":1}}': '{"a": 1}',
  '{{ x | string }} {"x":null}': "error",
  "{{ x.lstrip('\\n') }} {\"x\":\"\\n\\n hi\"}": "hi",
  "{{ u.v }} {}": "",
}

test.each(parity.templates.map(([source, values, python]) => [`${source} ${JSON.stringify(values)}`, source, values, python] as const))(
  "template %s renders as in Python, or in the known other way",
  (label, source, values, python) => {
    const render = (): string => {
      try {
        return new Template(source).render(values)
      } catch {
        return "error"
      }
    }
    expect(render()).toBe(knownDifferences[label] ?? python.text ?? "error")
  },
)
