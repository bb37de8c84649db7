import { expect, test } from "bun:test"

import { chooseChunk } from "./chunk.ts"

const base = { chunkSizes: [1, 4, 16], remaining: [100, 100], longest: 1000, stopRate: 0, waiting: false }

test("takes the longest chunk when every row is far from its end", () => {
  expect(chooseChunk(base)).toBe(16)
})

test("takes a short chunk when most rows are near their end", () => {
  expect(chooseChunk({ ...base, remaining: [1, 1, 1, 100] })).toBe(1)
  expect(chooseChunk({ ...base, remaining: [4, 4, 4, 4] })).toBe(4)
})

test("one short row does not slow down many long ones", () => {
  expect(chooseChunk({ ...base, remaining: [1, ...Array.from({ length: 15 }, () => 100)] })).toBe(16)
})

test("somebody waiting makes chunks shorter where a row is about to free its slot", () => {
  const near = { ...base, remaining: [4, 4, 12, 12] }
  expect(chooseChunk({ ...near, waiting: true })).toBeLessThan(chooseChunk(near) + 1)
  expect(chooseChunk({ ...near, waiting: true })).toBe(4)
})

test("a high stop rate makes chunks shorter", () => {
  expect(chooseChunk({ ...base, stopRate: 0.5 })).toBeLessThan(16)
})

test("never runs past the cache", () => {
  expect(chooseChunk({ ...base, longest: 15 })).toBe(4)
  expect(chooseChunk({ ...base, longest: 3 })).toBe(1)
})
