import { expect, test } from "bun:test"
import fc from "fast-check"
import { createVirtualClock } from "./virtual-clock.ts"

test("timers fire in the order of their time, equal times in the order they were set, aborted ones not at all", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.record({ ms: fc.integer({ min: 0, max: 9 }), aborted: fc.boolean() }), { maxLength: 40 }), async (timers) => {
      const clock = createVirtualClock()
      const fired: number[] = []
      const aborts = timers.map(({ ms }, index) => {
        const abort = new AbortController()
        clock.sleep(ms, abort.signal).then(() => fired.push(index), () => undefined)
        return abort
      })
      for (const [index, { aborted }] of timers.entries()) if (aborted) aborts[index]!.abort()
      expect(clock.pending).toBe(timers.filter(({ aborted }) => !aborted).length)
      await clock.advance(10)
      const expected = timers.flatMap(({ ms, aborted }, index) => (aborted ? [] : [{ ms, index }])).toSorted((a, b) => a.ms - b.ms)
      expect(fired).toEqual(expected.map(({ index }) => index))
      expect(clock.pending).toBe(0)
      expect(clock.now()).toBe(10)
    }),
    { seed: 4, numRuns: 60 },
  )
})

test("waiting for what can never come is an error, not a hang", async () => {
  const clock = createVirtualClock()
  const never = new Promise(() => undefined)
  await expect(clock.run(never)).rejects.toThrow("a deadlock")
  const beats = clock.sleep(100).then(() => clock.sleep(1000))
  await expect(clock.run(beats, 500)).rejects.toThrow("still pending after 500 ms")
})
