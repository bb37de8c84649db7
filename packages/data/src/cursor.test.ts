import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { errorOf } from "../test/fixtures.ts"
import { createCursor, restoreCursor, type CursorState } from "./cursor.ts"
import { proceduralSource } from "./source.ts"

const source = (size: number) => proceduralSource("rows", size, (i) => ({ id: `${i}`, prompt: `p${i}` }))
const take = (cursor: ReturnType<typeof createCursor>, count: number) => Array.from({ length: count }, () => cursor.next())

test("an epoch has every row once, the next epoch in another order", () => {
  const cursor = createCursor(source(20), { seed: 3, shuffle: true })
  const [first, second] = [take(cursor, 20), take(cursor, 20)]
  for (const epoch of [first, second]) expect(epoch.map((item) => item.index).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i))
  expect(second.map((item) => item.epoch)).toEqual(Array.from({ length: 20 }, () => 1))
  expect(first.map((item) => item.index)).not.toEqual(second.map((item) => item.index))
  expect(first[4]?.row.prompt).toBe(`p${first[4]?.index}`)
})

test("without shuffling rows come in their order, again and again", () => {
  expect(take(createCursor(source(3), { seed: 0, shuffle: false }), 7).map((item) => item.index)).toEqual([0, 1, 2, 0, 1, 2, 0])
})

test("a restored cursor goes on where the first one was", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 30 }), fc.nat(100), fc.nat(50), (size, taken, seed) => {
      const cursor = createCursor(source(size), { seed, shuffle: true })
      take(cursor, taken)
      const state = JSON.parse(JSON.stringify(cursor.state())) as CursorState
      expect(take(restoreCursor(source(size), state), 10)).toEqual(take(cursor, 10))
    }),
    { seed: 2, numRuns: 60 },
  )
})

test("through crashes, every occurrence is finished exactly once and is always the same row", () => {
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.constant("admit" as const) },
    { weight: 4, arbitrary: fc.nat(1000) },
    { weight: 1, arbitrary: fc.constant("crash" as const) },
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), fc.integer({ min: 1, max: 9 }), (steps, size) => {
      let cursor = createCursor(source(size), { seed: 5, shuffle: true })
      let flying: number[] = []
      const finished: number[] = []
      const rowOf = new Map<number, number>()
      for (const action of steps) {
        if (action === "admit") {
          const { occurrence, index } = cursor.next()
          expect(rowOf.get(occurrence) ?? index).toBe(index)
          rowOf.set(occurrence, index)
          flying.push(occurrence)
        } else if (action === "crash") {
          cursor = restoreCursor(source(size), JSON.parse(JSON.stringify(cursor.state())) as CursorState)
          for (const occurrence of flying) cursor.giveBack(occurrence)
          flying = []
        } else if (flying.length > 0) {
          finished.push(...flying.splice(action % flying.length, 1))
        }
      }
      const { next, returned } = cursor.state()
      expect([...finished, ...flying, ...returned].toSorted((a, b) => a - b)).toEqual(Array.from({ length: next }, (_, i) => i))
    }),
    { seed: 9, numRuns: 100 },
  )
})

test("given-back occurrences come first, lowest first, once", () => {
  const cursor = createCursor(source(4), { seed: 1, shuffle: true })
  take(cursor, 5)
  for (const occurrence of [3, 0, 4]) cursor.giveBack(occurrence)
  expect(cursor.state().returned).toEqual([0, 3, 4])
  expect(take(cursor, 4).map((item) => item.occurrence)).toEqual([0, 3, 4, 5])
})

test("what was not handed out, or is back already, cannot be given back", async () => {
  const cursor = createCursor(source(4), { seed: 1, shuffle: true })
  take(cursor, 2)
  cursor.giveBack(1)
  for (const occurrence of [2, -1, 0.5]) expect((await errorOf(() => cursor.giveBack(occurrence))).message).toContain("only those below 2")
  expect((await errorOf(() => cursor.giveBack(1))).message).toContain("given back twice")
})

describe("a state of another run is refused", () => {
  const state = createCursor(source(4), { seed: 1, shuffle: true }).state()

  test("another size, seed or order", async () => {
    const size = await errorOf(() => restoreCursor(source(5), state))
    expect(size.code).toBe("checkpoint_invalid")
    expect(size.message).toContain("rows has 5 rows, the checkpoint was made with 4")
    expect((await errorOf(() => restoreCursor(source(4), state, { seed: 2, shuffle: true }))).message).toBe("seed is 2, the checkpoint has 1")
    expect((await errorOf(() => restoreCursor(source(4), state, { shuffle: false }))).message).toContain("shuffle is false")
  })

  test.each([null, {}, { ...state, next: -1 }, { ...state, returned: [0] }, { ...state, next: 3, returned: [2, 1] }, { ...state, next: 3, returned: [1, 1] }])(
    "%p",
    async (broken) => {
      expect((await errorOf(() => restoreCursor(source(4), broken as CursorState))).code).toBe("checkpoint_invalid")
    },
  )
})

test("no rows and a seed that is none are refused", async () => {
  expect((await errorOf(() => createCursor(source(0), { seed: 1, shuffle: true }))).code).toBe("dataset_invalid")
  expect((await errorOf(() => createCursor(source(1), { seed: 1.5, shuffle: true }))).code).toBe("config_invalid")
})
