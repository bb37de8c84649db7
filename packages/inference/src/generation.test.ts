import { expect, test } from "bun:test"
import fc from "fast-check"
import { generationOf } from "./generation.ts"
import { checkRequest } from "./request.ts"
import type { GenerateRequest } from "./protocol.ts"
import { spansOfLabels, versionTracker } from "./versions.ts"

const raw = (tokenIds: readonly unknown[], logProbs: readonly unknown[], finishReason: unknown = "stop") =>
  generationOf({ tokenIds, logProbs, finishReason, versions: [[0, 3]], where: "a choice 0" })

test("ids and log-probs keep their pairs", () => {
  const generation = raw([5, 6], [-0.5, 0])
  expect([...generation.tokenIds]).toEqual([5, 6])
  expect([...generation.logProbs]).toEqual([-0.5, 0])
})

test.each<[string, readonly unknown[], readonly unknown[], RegExp]>([
  ["unequal lengths", [1, 2], [-1], /2 token ids but 1 log-probs/],
  ["null", [1], [null], /log-prob of token 0 \(id 1\) is null/],
  ["not a number", [1], [Number.NaN], /is number null/],
  ["vLLM's minus infinity", [1, 60], [-1, -9999], /log-prob of token 1 \(id 60\) is -9999: not finite/],
  ["minus infinity", [1], [-Infinity], /not finite/],
  ["a logit", [1], [3.5], /3.5: positive/],
  ["a fractional id", [1.5], [-1], /token 0 is number 1.5/],
  ["a negative id", [-1], [-1], /token 0/],
  ["an id above int32", [2 ** 31], [-1], /token 0/],
])("%s is refused by name", (_, ids, logProbs, message) => {
  expect(() => raw(ids, logProbs)).toThrow(message)
})

test("rounding noise above 0 is 0, an unfinished answer is an abort, a repetition counts as cut", () => {
  expect(raw([1], [1e-5]).logProbs[0]).toBe(0)
  expect(raw([], [], null).finishReason).toBe("abort")
  expect(raw([1], [-1], "repetition").finishReason).toBe("length")
  expect(() => raw([1], [-1], "error")).toThrow(/finish reason/)
})

test("a request nobody can serve is refused before it is sent", () => {
  const sampling = { maxTokens: 1, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, stopTokenIds: [] }
  const request: GenerateRequest = { promptIds: Int32Array.of(1), n: 1, sampling, signal: new AbortController().signal }
  checkRequest(request)
  expect(() => checkRequest({ ...request, promptIds: new Int32Array() })).toThrow("promptIds is empty")
  expect(() => checkRequest({ ...request, promptIds: Int32Array.of(4, -1) })).toThrow("promptIds[1] is -1")
  expect(() => checkRequest({ ...request, n: 0 })).toThrow("n is 0")
  for (const [key, value] of Object.entries({ maxTokens: 0, temperature: Number.NaN, topP: 0, topK: -1, minP: 2, repetitionPenalty: 0, seed: 1.5 }))
    expect(() => checkRequest({ ...request, sampling: { ...sampling, [key]: value } })).toThrow(`sampling.${key} is ${value}`)
})

test("spans cover every token, ascend, and give each token the version its label names", () => {
  const pieces = fc.array(fc.record({ version: fc.integer({ min: 0, max: 3 }), length: fc.integer({ min: 0, max: 4 }) }), { maxLength: 6 })
  fc.assert(
    fc.property(pieces, (parts) => {
      const perToken: number[] = []
      const labels = parts.map(({ version, length }) => {
        const start = perToken.length
        for (let i = 0; i < length; i += 1) perToken.push(version)
        return { version: String(version), start, end: perToken.length }
      })
      const spans = spansOfLabels(labels, perToken.length, 0, "a")
      const expanded = perToken.map((_, token) => spans.findLast(([from]) => from <= token)?.[1])
      expect(expanded).toEqual(perToken)
      for (let i = 1; i < spans.length; i += 1) {
        expect(spans[i]![0]).toBeGreaterThan(spans[i - 1]![0])
        expect(spans[i]![1]).not.toBe(spans[i - 1]![1])
      }
    }),
    { seed: 2, numRuns: 60 },
  )
})

test.each([
  ["a gap", [{ version: "1", start: 0, end: 2 }, { version: "2", start: 3, end: 4 }]],
  ["an overlap", [{ version: "1", start: 0, end: 3 }, { version: "2", start: 2, end: 4 }]],
  ["too few", [{ version: "1", start: 0, end: 2 }]],
  ["too many", [{ version: "1", start: 0, end: 5 }]],
  ["another program's label", [{ version: "nightly", start: 0, end: 4 }]],
])("labels with %s are refused", (_, labels) => {
  expect(() => spansOfLabels(labels, 4, 0, "a")).toThrow(/a: weight/)
})

test("bookkeeping: the older version for a request under which weights changed, the new one for a request sent into the pause", () => {
  let now = 0
  const tracker = versionTracker(4, () => now)
  const before = tracker.open()
  tracker.pause()
  now = 100
  const during = tracker.open()
  tracker.switchTo(5)
  now = 250
  tracker.resume()
  expect(before.oldest).toBe(4)
  expect(during.oldest).toBe(5)
  expect(tracker.pausedMs()).toBe(250)
  tracker.pause()
  now = 300
  expect(tracker.pausedMs()).toBe(300)
})
