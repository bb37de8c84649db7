import { expect, test } from "bun:test"
import fc from "fast-check"
import { bpeFolder, charFolder } from "../test/fixtures.ts"
import { createStreamDecoder } from "./stream-decoder.ts"
import { openTokenizer } from "./tokenizer.ts"

const bpe = openTokenizer(bpeFolder)

test("a character of several tokens is given out whole", () => {
  const ids = bpe.encode("a😀b")
  expect(ids.length).toBe(6)
  const stream = createStreamDecoder(bpe)
  expect([...ids].map((id) => stream.push(id))).toEqual(["a", "", "", "", "😀", "b"])
  expect(stream.flush()).toBe("")
})

test("half a character at the end is flushed as U+FFFD", () => {
  const stream = createStreamDecoder(bpe)
  const [first = 0, second = 0] = bpe.encode("😀")
  expect(stream.push(first) + stream.push(second)).toBe("")
  expect(stream.flush()).toBe("\ufffd")
})

test.each([
  ["bpe", bpe],
  ["char", openTokenizer(charFolder)],
])("%s: the parts joined are the whole, for any ids", (_, tokenizer) => {
  const id = fc.oneof(fc.nat(tokenizer.vocabSize - 1), fc.integer({ min: 0, max: 20 }), fc.constantFrom(...tokenizer.encode("é😀世")))
  fc.assert(
    fc.property(fc.array(id, { maxLength: 60 }), fc.boolean(), (ids, skipSpecialTokens) => {
      const stream = createStreamDecoder(tokenizer, { skipSpecialTokens })
      const parts = ids.map((item) => stream.push(item))
      expect(parts.join("") + stream.flush()).toBe(tokenizer.decode(ids, { skipSpecialTokens }))
    }),
    { seed: 11, numRuns: 300 },
  )
})

test("a long run of broken bytes is let go", () => {
  const stream = createStreamDecoder(bpe)
  const broken = bpe.encode("😀")[1] ?? 0
  const given = Array.from({ length: 200 }, () => stream.push(broken)).join("")
  expect(given.length).toBeGreaterThan(150)
})
