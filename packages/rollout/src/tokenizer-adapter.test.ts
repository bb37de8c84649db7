import { expect, test } from "bun:test"
import type { EnvironmentFactory } from "@cohort/env"
import fc from "fast-check"
import { openTokenizer } from "@cohort/tokenizer"
import { dirname, join } from "node:path"
import { continuationIds } from "./chat.ts"
import { createWorkerHarness } from "./testing/harness.ts"
import { episodeTokenizer } from "./tokenizer-adapter.ts"
import type { SampleGroup } from "./protocol.ts"

// ChatML with tools; it drops earlier reasoning when it renders a conversation again.
const folder = join(dirname(Bun.resolveSync("@cohort/tokenizer/package.json", import.meta.dir)), "fixtures", "bpe")
const hf = openTokenizer(folder)
const tokenizer = episodeTokenizer(hf)
const stop = hf.eosTokenIds[0]!
const show = (ids: Int32Array): string => hf.decode(ids)

test("a continuation is what the template writes between the turns", () => {
  const generated = Int32Array.from([...hf.encode("<think>hm</think>4"), stop])
  const delta = continuationIds(tokenizer, generated, [], [{ role: "user", content: "sure?" }], [])
  expect(show(delta as Int32Array)).toBe("\n<|im_start|>user\nsure?<|im_end|>\n<|im_start|>assistant\n")
})

test("an opened reasoning block in the prompt is part of the turn's reading", () => {
  const open = hf.encode("<|im_start|>assistant\n<think>\n")
  const answer = Int32Array.from([...hf.encode("two and two</think>4"), stop])
  expect(tokenizer.parseAssistant(answer, open, []).message).toMatchObject({ reasoning: "two and two", content: "4" })
  expect(tokenizer.parseAssistant(Int32Array.of(hf.vocabSize + 5), open, []).text).toBe("")
})

test("any ids are a turn that can be read and answered, none throws", () => {
  const anyIds = fc.array(fc.oneof(fc.integer({ min: 0, max: hf.vocabSize + 50 }), fc.constantFrom(...hf.encode("<tool_call>{\"name\":\"add\"}</tool_call><think></think>"), stop)), { maxLength: 40 })
  fc.assert(
    fc.property(anyIds, anyIds, (generated, prompt) => {
      const ids = Int32Array.from(generated)
      const { message, text, callErrors = [] } = tokenizer.parseAssistant(ids, Int32Array.from(prompt), ["add"])
      expect([typeof message.content, typeof text]).toEqual(["string", "string"])
      const answers = [...(message.tool_calls ?? []), ...callErrors].map(() => ({ role: "tool", content: "1" }) as const)
      if (answers.length > 0) expect(continuationIds(tokenizer, ids, message.tool_calls ?? [], answers, [])).toBeInstanceOf(Int32Array)
    }),
    { seed: 4, numRuns: 300 },
  )
})

test("a worker with a tool environment: one request per rollout, every rollout one row that decodes to the conversation", async () => {
  let opened = 0
  let closed = 0
  const environment: EnvironmentFactory = () => {
    opened++
    return {
      tools: { add: { description: "Adds.", run: ({ a, b }: { readonly a?: number; readonly b?: number }) => (a ?? 0) + (b ?? 0) } },
      reset: () => undefined,
      score: () => opened % 3,
      close: () => {
        closed++
        return Promise.resolve()
      },
    }
  }
  const call = 'let me add\n<tool_call>\n{"name": "add", "arguments": {"a":2,"b":3}}\n</tool_call>'
  const harness = createWorkerHarness(
    { tokenizer, environmentOf: () => environment, sampling: { maxTokens: 400, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [stop] } },
    { tokenMs: 1, complete: (request) => ({ tokenIds: [...hf.encode(show(request.promptIds).includes("tool_response") ? "it is 5" : call), stop] }) },
  )
  await harness.worker.start()
  const { value } = await harness.clock.run(harness.worker.samples[Symbol.asyncIterator]().next())
  const group = value as SampleGroup
  await harness.clock.run(harness.worker.stop())
  expect(group.samples).toHaveLength(3)
  const [sample] = group.samples
  const trained = sample!.tokenIds.filter((_, i) => sample!.lossMask[i] === 1)
  expect(show(trained)).toBe(`${call}<|im_end|>it is 5<|im_end|>`)
  expect(show(sample!.tokenIds)).toEndWith(
    `<|im_start|>user\nprompt 0<|im_end|>\n<|im_start|>assistant\n${call}<|im_end|>\n<|im_start|>user\n<tool_response>\n5\n</tool_response><|im_end|>\n<|im_start|>assistant\nit is 5<|im_end|>`,
  )
  expect(group.rewardParts).toMatchObject({ environment: expect.any(Number), length: expect.any(Number) })
  expect(harness.server.requests.every(({ n }) => n === 1)).toBe(true)
  expect(new Set(harness.server.requests.map(({ sampling }) => sampling.seed)).size).toBe(harness.server.requests.length)
  expect(closed).toBe(opened)
})
