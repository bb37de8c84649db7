import { expect, test } from "bun:test"
import fc from "fast-check"
import { SampleQueue } from "./queue.ts"
import { createVirtualClock } from "./testing/virtual-clock.ts"

const item = (occurrence: number, oldestVersion = 0) => ({ occurrence, oldestVersion })
const settled = async (promise: Promise<unknown>): Promise<boolean> => {
  const seen = { settled: false }
  const settle = (): void => {
    seen.settled = true
  }
  promise.then(settle, settle)
  await new Promise((resolve) => setImmediate(resolve))
  return seen.settled
}

test("oldest version first, then the lower occurrence", async () => {
  const queue = new SampleQueue(9)
  for (const [occurrence, version] of [[5, 2], [1, 3], [2, 2], [9, 1]] as const) await queue.push(item(occurrence, version))
  expect(Array.from({ length: 4 }, () => queue.tryTake()?.occurrence)).toEqual([9, 2, 5, 1])
  expect(queue.tryTake()).toBeUndefined()
})

test("a full queue holds its producers, and shows the oldest group all the same", async () => {
  const queue = new SampleQueue(2)
  await queue.push(item(1, 5))
  await queue.push(item(2, 5))
  const older = queue.push(item(3, 1))
  const newer = queue.push(item(4, 9))
  expect(await settled(older)).toBe(false)
  expect(queue.size).toBe(4)
  expect(queue.tryTake()?.occurrence).toBe(3)
  expect(await settled(older)).toBe(true)
  expect(await settled(newer)).toBe(false)
  expect(queue.tryTake()?.occurrence).toBe(1)
  expect(await settled(newer)).toBe(true)
})

test("an aborted producer takes its group with it", async () => {
  const queue = new SampleQueue(1)
  await queue.push(item(0))
  const abort = new AbortController()
  const waiting = queue.push(item(1), abort.signal)
  abort.abort(new Error("no longer wanted"))
  await expect(waiting).rejects.toThrow("no longer wanted")
  expect(queue.drain()).toEqual([item(0)])
})

test("taking waits for a group, up to its deadline, its signal, the close or the failure", async () => {
  const clock = createVirtualClock()
  const queue = new SampleQueue<ReturnType<typeof item>>(4)
  const late = queue.take({ clock, timeoutMs: 1000 })
  await clock.advance(10)
  await queue.push(item(7))
  expect(await clock.run(late)).toEqual(item(7))
  await expect(clock.run(queue.take({ clock, timeoutMs: 1000 }))).rejects.toThrow("no group came within 1000 ms")
  expect(clock.now()).toBe(1010)
  await expect(queue.take({ clock, timeoutMs: 1000, signal: AbortSignal.abort(new Error("stopped")) })).rejects.toThrow("stopped")
  await queue.push(item(8))
  queue.close()
  expect(await queue.take({ clock, timeoutMs: 1000 })).toEqual(item(8))
  expect(await queue.take({ clock, timeoutMs: 1000 })).toBeUndefined()
  await expect(queue.push(item(9))).rejects.toThrow("closed")
  expect(clock.pending).toBe(0)
  const failing = new SampleQueue<ReturnType<typeof item>>(4)
  await failing.push(item(1))
  failing.fail(new Error("the worker is dead"))
  await expect(failing.take({ clock, timeoutMs: 1000 })).rejects.toThrow("the worker is dead")
  expect(failing.drain()).toEqual([item(1)])
})

test("the iterator ends with the queue", async () => {
  const clock = createVirtualClock()
  const queue = new SampleQueue<ReturnType<typeof item>>(4)
  await queue.push(item(2))
  await queue.push(item(1))
  queue.close()
  const seen: number[] = []
  for await (const { occurrence } of queue.iterate({ clock, timeoutMs: 10 })) seen.push(occurrence)
  expect(seen).toEqual([1, 2])
})

test("any order of pushes and takes: nothing lost, nothing twice, always the oldest", async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 4 }), fc.array(fc.option(fc.nat(5), { nil: null }), { maxLength: 40 }), async (capacity, operations) => {
      const queue = new SampleQueue<ReturnType<typeof item>>(capacity)
      const inside: ReturnType<typeof item>[] = []
      const pushes: Promise<void>[] = []
      let next = 0
      for (const version of operations) {
        if (version !== null) {
          inside.push(item(next, version))
          pushes.push(queue.push(item(next++, version)))
          continue
        }
        const expected = inside.toSorted((a, b) => a.oldestVersion - b.oldestVersion || a.occurrence - b.occurrence)[0]
        expect(queue.tryTake()).toEqual(expected!)
        if (expected !== undefined) inside.splice(inside.indexOf(expected), 1)
      }
      while (queue.tryTake() !== undefined) inside.pop()
      expect(inside).toEqual([])
      await Promise.all(pushes)
    }),
    { seed: 2, numRuns: 150 },
  )
})
