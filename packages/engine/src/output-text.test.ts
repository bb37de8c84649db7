import { expect, test } from "bun:test"
import fc from "fast-check"

import { createOutputText } from "./output-text.ts"
import { createByteTokenizer } from "./testing/index.ts"

const tokenizer = createByteTokenizer()
const plain = { stop: [], includeStop: false, skipSpecialTokens: true, minTokens: 0 }
const ids = (text: string) => [...tokenizer.encode(text, { addSpecialTokens: false })]

test("pieces taken on the way join to the whole text, whatever the characters and stop strings", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 20 }), fc.array(fc.string({ minLength: 1, maxLength: 4 }), { maxLength: 2 }), fc.boolean(), (text, stop, includeStop) => {
      const out = createOutputText(tokenizer, { ...plain, stop, includeStop })
      let joined = ""
      let matched: string | undefined
      for (const id of ids(text)) {
        matched = out.push(id, false)
        joined += out.take(false)
        if (matched !== undefined) break
      }
      joined += out.take(true)
      expect(joined).toBe(out.text)
      if (matched === undefined) expect(out.text).toBe(text)
      const at = Math.min(...stop.map((one) => text.indexOf(one)).filter((index) => index >= 0))
      expect(matched !== undefined).toBe(at !== Infinity)
      if (matched !== undefined && !includeStop) expect(text.startsWith(out.text)).toBe(true)
    }),
    { numRuns: 300, seed: 3 },
  )
})

test("never shows text that turns out to belong to a stop string", () => {
  const out = createOutputText(tokenizer, { ...plain, stop: ["END"] })
  const shown = ids("abEN").map((id) => {
    out.push(id, false)
    return out.take(false)
  })
  expect(shown.join("")).toBe("ab")
  expect(out.push(ids("D")[0]!, false)).toBe("END")
  expect(out.take(true)).toBe("")
  expect(out.text).toBe("ab")
})

test("holds back half a character and shows it whole", () => {
  const out = createOutputText(tokenizer, plain)
  const [first, ...rest] = ids("é")
  out.push(first!, false)
  expect(out.take(false)).toBe("")
  for (const id of rest) out.push(id, false)
  expect(out.take(false)).toBe("é")
})

test("shows a broken character at the end", () => {
  const out = createOutputText(tokenizer, plain)
  out.push(ids("é")[0]!, false)
  expect(out.take(true)).toBe("\uFFFD")
  expect(out.text).toBe("\uFFFD")
})

test("a stop token shows only when asked for", () => {
  const hidden = createOutputText(tokenizer, plain)
  hidden.push(65, true)
  expect(hidden.text).toBe("")
  const shown = createOutputText(tokenizer, { ...plain, includeStop: true })
  shown.push(65, true)
  expect(shown.text).toBe("A")
})

test("looks for stop strings only from minTokens on", () => {
  const out = createOutputText(tokenizer, { ...plain, stop: ["a"], minTokens: 3 })
  expect(ids("aaa").map((id) => out.push(id, false))).toEqual([undefined, undefined, "a"])
})
