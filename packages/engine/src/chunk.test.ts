import { expect, test } from "bun:test"

import { chooseChunk } from "./chunk.ts"

const rowsLeft = (...left: number[]) => left.map((tokens) => ({ made: 0, left: tokens }))
const base = { chunkSizes: [1, 4, 16], rows: rowsLeft(100, 100), longest: 1000, stopRate: () => 0 }

test("takes the longest chunk when every row is far from its end", () => {
  expect(chooseChunk(base)).toBe(16)
})

test("takes a short chunk when most rows are near their end", () => {
  expect(chooseChunk({ ...base, rows: rowsLeft(1, 1, 1, 100) })).toBe(1)
  expect(chooseChunk({ ...base, rows: rowsLeft(4, 4, 4, 4) })).toBe(4)
})

test("one short row does not slow down many long ones", () => {
  expect(chooseChunk({ ...base, rows: rowsLeft(1, ...Array.from({ length: 15 }, () => 100)) })).toBe(16)
})

test("a high stop rate makes chunks shorter", () => {
  expect(chooseChunk({ ...base, stopRate: () => 0.5 })).toBeLessThan(16)
})

test("answers of a known length get one call", () => {
  const endsAt = (length: number) => (made: number) => (made >= length - 1 ? 1 : 0)
  expect(chooseChunk({ ...base, stopRate: endsAt(4) })).toBe(4)
  expect(chooseChunk({ ...base, rows: [{ made: 3, left: 97 }], stopRate: endsAt(4) })).toBe(1)
})

test("never runs past the cache", () => {
  expect(chooseChunk({ ...base, longest: 15 })).toBe(4)
  expect(chooseChunk({ ...base, longest: 3 })).toBe(1)
  expect(chooseChunk({ ...base, longest: 0 })).toBe(1)
})
