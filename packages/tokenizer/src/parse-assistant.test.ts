import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { parseAssistant, type ParseOptions } from "./parse-assistant.ts"

const summary = (text: string, options?: ParseOptions) => {
  const { message, reasoning, toolCalls, malformed, reasoningClosed } = parseAssistant(text, options)
  return {
    content: message.content,
    reasoning,
    calls: toolCalls.map((call) => [call.function.name, call.function.arguments, ...(call.id === undefined ? [] : [call.id])]),
    malformed: malformed.length,
    closed: reasoningClosed,
  }
}
const plain = { reasoning: undefined, calls: [], malformed: 0, closed: true }
const add = ["add", { a: 1, b: 2 }]
const addJson = '{"name": "add", "arguments": {"a": 1, "b": 2}}'

describe("reasoning", () => {
  const cases: [string, string, ParseOptions | undefined, object][] = [
    ["none", " 4 ", undefined, { content: " 4 " }],
    ["closed", "<think>\n2 and 2\n</think>\n\n4", undefined, { content: "4", reasoning: "2 and 2" }],
    ["empty", "<think>\n\n</think>\n\n4", undefined, { content: "4", reasoning: "" }],
    ["cut off", "<think>2 and", undefined, { content: "", reasoning: "2 and", closed: false }],
    ["begun by the prompt", "2 and 2</think>4", undefined, { content: "4", reasoning: "2 and 2" }],
    ["begun by the prompt and cut off", "2 and", { reasoningOpen: true }, { content: "", reasoning: "2 and", closed: false }],
    ["two blocks", "<think>a</think>x<think>b</think>y", undefined, { content: "xy", reasoning: "a\nb" }],
    ["Mistral's markers", "[THINK]a[/THINK]b", undefined, { content: "b", reasoning: "a" }],
    ["a call inside is no call", `<think><tool_call>${addJson}</tool_call></think>4`, undefined, { content: "4", reasoning: `<tool_call>${addJson}</tool_call>` }],
    ["half a marker", "<think", undefined, { content: "<think" }],
    ["end tokens at the tail", "4<|im_end|>\n<|endoftext|>", undefined, { content: "4" }],
  ]
  test.each(cases)("%s", (_, text, options, expected) => {
    expect(summary(text, options)).toEqual({ content: "", ...plain, ...expected })
  })
})

describe("tool calls", () => {
  const cases: [string, string, ParseOptions | undefined, object][] = [
    ["Hermes and Qwen", `<tool_call>\n${addJson}\n</tool_call>`, undefined, { calls: [add] }],
    ["text around two of them", `so <tool_call>${addJson}</tool_call>\n<tool_call>${addJson}</tool_call> done`, undefined, { content: "so \n done", calls: [add, add] }],
    ["SmolLM's list", `<tool_call>[${addJson}, ${addJson}]</tool_call>`, undefined, { calls: [add, add] }],
    ["after reasoning", `<think>t</think>\n<tool_call>${addJson}</tool_call>`, undefined, { reasoning: "t", calls: [add] }],
    ["closing tag missing", `<tool_call>${addJson}`, undefined, { calls: [add] }],
    ["closing tag inside a string", '<tool_call>{"name":"say","arguments":{"t":"</tool_call>"}}</tool_call>', undefined, { calls: [["say", { t: "</tool_call>" }]] }],
    ["arguments as text", '<tool_call>{"name":"add","arguments":"{\\"a\\":1,\\"b\\":2}"}</tool_call>', undefined, { calls: [add] }],
    ["no arguments", '<tool_call>{"name":"now"}</tool_call>', undefined, { calls: [["now", {}]] }],
    ["OpenAI's nesting", `<tool_call>{"id":"c1","type":"function","function":${addJson}}</tool_call>`, undefined, { calls: [[...add, "c1"]] }],
    ["Mistral's list", `[TOOL_CALLS] [{"name":"add","arguments":{"a":1,"b":2},"id":"abcdefghi"}]</s>`, undefined, { calls: [[...add, "abcdefghi"]] }],
    ["Mistral's newer form", 'ok[TOOL_CALLS]add[ARGS]{"a":1,"b":2}[TOOL_CALLS]now[CALL_ID]x1[ARGS]{}', undefined, { content: "ok", calls: [[...add, "call00000"], ["now", {}, "x1"]] }],
    ["Llama 3 with its tag", '<|python_tag|>{"name":"add","parameters":{"a":1,"b":2}}<|eom_id|>', undefined, { calls: [add] }],
    ["Llama 3, two calls", '<|python_tag|>{"name":"add","parameters":{"a":1,"b":2}}; {"name":"now","parameters":{}}', undefined, { calls: [add, ["now", {}]] }],
    ["JSON alone that names a tool", '{"name":"add","parameters":{"a":1,"b":2}}<|eot_id|>', { toolNames: ["add"] }, { calls: [add] }],
    ["JSON alone that names none", '{"name":"Ada","parameters":{}}', { toolNames: ["add"] }, { content: '{"name":"Ada","parameters":{}}' }],
    ["JSON alone without tools", addJson, undefined, { content: addJson }],
  ]
  test.each(cases)("%s", (_, text, options, expected) => {
    expect(summary(text, options)).toEqual({ content: "", ...plain, ...expected })
  })
})

describe("calls that cannot be read stay in the text and are reported", () => {
  const cases: [string, string, string][] = [
    ["cut off", '<tool_call>{"name":"add","argum', "not JSON, or was cut off"],
    ["single quotes", "<tool_call>{'name':'add'}</tool_call>", "not JSON"],
    ["no name", '<tool_call>{"arguments":{}}</tool_call>', "no name"],
    ["arguments that are a list", '<tool_call>{"name":"add","arguments":[1]}</tool_call>', "arguments of add must be a JSON object"],
    ["a number", "<tool_call>3</tool_call>", "must be a JSON object"],
    ["nothing", "<tool_call></tool_call>", "not JSON"],
    ["Mistral, cut off", '[TOOL_CALLS]add[ARGS]{"a":', "arguments of add"],
    ["Llama's code", "<|python_tag|>print(1)", "not JSON"],
  ]
  test.each(cases)("%s", (_, text, error) => {
    const { message, toolCalls, malformed } = parseAssistant(text)
    expect(toolCalls).toEqual([])
    expect(message.tool_calls).toBeUndefined()
    expect(malformed[0]?.error).toContain(error)
    expect(message.content).toBe(text)
  })

  test("a good call beside a bad one counts", () => {
    const { toolCalls, malformed, message } = parseAssistant(`<tool_call>${addJson}</tool_call><tool_call>{</tool_call>`)
    expect([toolCalls.length, malformed.length, message.content]).toEqual([1, 1, "<tool_call>{</tool_call>"])
  })
})

test("calls that can be read and those that cannot keep the order in which they were written", () => {
  const { malformed } = parseAssistant(`<tool_call>{</tool_call><tool_call>${addJson}</tool_call><tool_call>[]x</tool_call><tool_call>${addJson}</tool_call>`)
  expect(malformed.map(({ callsBefore }) => callsBefore)).toEqual([0, 1])
})

describe("a turn cut at any character", () => {
  const argument = fc.dictionary(fc.string({ minLength: 1, maxLength: 6 }), fc.oneof(fc.integer(), fc.string(), fc.boolean(), fc.constant(null), fc.array(fc.string({ maxLength: 4 }), { maxLength: 2 })), { maxKeys: 3 })
  const calls = fc.array(fc.record({ name: fc.constantFrom("add", "now", "say_it"), arguments: argument }), { minLength: 1, maxLength: 3 })
  type Calls = readonly { readonly name: string; readonly arguments: unknown }[]
  const families: Readonly<Record<string, { readonly write: (made: Calls) => string; readonly alone?: true }>> = {
    "Hermes and Qwen": { write: (made) => made.map((call) => `<tool_call>\n${JSON.stringify(call)}\n</tool_call>`).join("\n") },
    "SmolLM3, one list": { write: (made) => `<tool_call>${JSON.stringify(made)}</tool_call>` },
    "Llama 3 with its tag": { write: (made) => `<|python_tag|>${made.map(({ name, arguments: parameters }) => JSON.stringify({ name, parameters })).join("; ")}` },
    "Llama 3, JSON alone": { write: (made) => made.map(({ name, arguments: parameters }) => JSON.stringify({ name, parameters })).join("; "), alone: true },
    "Mistral's list": { write: (made) => `[TOOL_CALLS]${JSON.stringify(made)}` },
    "Mistral's newer form": { write: (made) => made.map((call) => `[TOOL_CALLS]${call.name}[ARGS]${JSON.stringify(call.arguments)}`).join("") },
  }
  const markers = /<\/?think>|<\/?tool_call>|\[\/?THINK\]|\[TOOL_CALLS\]|\[ARGS\]|\[CALL_ID\]|<\|/
  // A marker inside an argument is told apart for whole turns only; that has its own case above.
  const clean = (made: Calls): boolean => !markers.test(JSON.stringify(made)) && !/;\s*\{/.test(JSON.stringify(made))

  test.each(Object.entries(families))("%s: nothing throws, what is read was written, and the whole is read whole", (_, { write, alone }) => {
    fc.assert(
      fc.property(calls.filter(clean), fc.boolean(), fc.nat(), (made, thinks, at) => {
        const thought = thinks && alone !== true ? "<think>\nwhat to do; {maybe} this?\n</think>\n\n" : ""
        const text = `${thought}${write(made)}`
        const expected = made.map((call) => [call.name, call.arguments])
        const read = (turn: string) => parseAssistant(turn, { toolNames: ["add", "now", "say_it"] })
        expect(read(`${text}<|im_end|>`).toolCalls.map(({ function: of }) => [of.name, of.arguments])).toEqual(expected as never)
        const cut = at % (text.length + 1)
        const { message, toolCalls, malformed, reasoning, reasoningClosed } = read(text.slice(0, cut))
        // Calls read from a cut turn are the first of those written, and none is read twice.
        const seen = toolCalls.map(({ function: of }) => [of.name, of.arguments])
        expect(seen).toEqual(expected.slice(0, seen.length) as never)
        expect(malformed.length).toBeLessThanOrEqual(1)
        expect(typeof message.content).toBe("string")
        if (thought !== "" && cut >= "<think>".length && cut < thought.trimEnd().length) expect([reasoningClosed, toolCalls.length]).toEqual([false, 0])
        if (thought !== "" && cut >= thought.length) expect(reasoning).toBe("what to do; {maybe} this?")
      }),
      { seed: 11, numRuns: 400 },
    )
  })
})

test("no text makes it throw", () => {
  const token = fc.constantFrom("<think>", "</think>", "[THINK]", "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>", "{", "}", "[", "]", '"name"', ":", '"add"', ",", ";", "null", " ", "<|im_end|>", addJson)
  fc.assert(
    fc.property(fc.array(fc.oneof(token, fc.string({ unit: "binary", maxLength: 5 })), { maxLength: 12 }), fc.boolean(), (parts, reasoningOpen) => {
      const { message } = parseAssistant(parts.join(""), { reasoningOpen, toolNames: ["add"] })
      expect(typeof message.content).toBe("string")
    }),
    { seed: 5, numRuns: 500 },
  )
  expect(() => parseAssistant("[".repeat(200_000), { toolNames: ["a"] })).not.toThrow()
  expect(() => parseAssistant("<tool_call>".repeat(20_000))).not.toThrow()
})
