import { expect, test } from "bun:test"
import fc from "fast-check"
import { createRooms } from "./rooms.ts"

test("takes the row with the least room that suits, the last put of those, as a search through all does", () => {
  const steps = fc.array(fc.record({ room: fc.integer({ min: 0, max: 100 }), want: fc.integer({ min: 1, max: 100 }), puts: fc.boolean(), odd: fc.boolean() }), { maxLength: 80 })
  fc.assert(
    fc.property(steps, (drawn) => {
      const rooms = createRooms(100)
      let open: { readonly row: number; readonly room: number }[] = []
      for (const [row, { room, want, puts, odd }] of drawn.entries()) {
        if (puts) {
          rooms.put(row, room)
          open.push({ row, room })
          continue
        }
        const suits = (candidate: number): boolean => !odd || candidate % 2 === 1
        const fitting = open.filter((each) => each.room >= want && suits(each.row))
        const least = Math.min(...fitting.map((each) => each.room))
        const expected = fitting.findLast((each) => each.room === least)?.row
        expect(rooms.take(want, suits)).toBe(expected)
        open = open.filter((each) => each.row !== expected)
      }
    }),
    { seed: 3, numRuns: 200 },
  )
})
