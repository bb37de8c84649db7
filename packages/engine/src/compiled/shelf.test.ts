import { expect, test } from "bun:test"
import { createShelf } from "./shelf.ts"

/** A shelf of sizes whose calls take one millisecond per unit of size, and whose compiling takes 100. */
function sizes() {
  let clock = 0
  const compiled: number[] = []
  const shelf = createShelf<number, number>({
    compile: (size) => {
      compiled.push(size)
      clock += 100
      return size
    },
    keyOf: String,
    covers: (larger, smaller) => larger >= smaller,
    costOf: (size) => size,
    now: () => clock,
  })
  const call = (size: number): number => shelf.run(size, (program) => ((clock += program), program))
  return { call, compiled }
}

test("a small call uses the larger program until it would have paid for its own", () => {
  const { call, compiled } = sizes()
  call(40)
  call(40)
  const used = Array.from({ length: 12 }, () => call(10))
  // 30 ms are lost at each call; the first-call guess of compiling is replaced by the measured time.
  expect(used.filter((program) => program === 40).length).toBeGreaterThan(2)
  expect(used.at(-1)).toBe(10)
  expect(compiled).toEqual([40, 10])
})

test("what no program covers is compiled at once, and the cheapest cover is taken", () => {
  const { call, compiled } = sizes()
  for (const size of [8, 64, 16]) call(size)
  expect(compiled).toEqual([8, 64])
  expect(call(4)).toBe(8)
  expect(call(60)).toBe(64)
})
