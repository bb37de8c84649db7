import { describe, expect, test } from "bun:test"
import { CohortError } from "@cohort/errors"
import fc from "fast-check"
import { bounded, withDeadline } from "./deadline.ts"
import { createVirtualClock } from "./testing/virtual-clock.ts"

const never = (): Promise<never> => new Promise(() => undefined)
const outcome = (promise: Promise<unknown>): Promise<string> => promise.then((value) => `value ${String(value)}`, (error: unknown) => (error instanceof CohortError ? error.code : String(error)))

describe("a bounded call", () => {
  test("settles with what it gives, at its deadline, or with the outer signal, and leaves no timer", async () => {
    const clock = createVirtualClock()
    const outer = new AbortController()
    const deadline = { clock, timeoutMs: 100, signal: outer.signal, what: "tool x" }
    expect(await withDeadline(deadline, () => 1)).toBe(1)
    expect(await outcome(withDeadline(deadline, () => { throw new Error("broken") }))).toBe("Error: broken")
    expect(await outcome(clock.run(withDeadline(deadline, (signal) => clock.sleep(50, signal).then(() => "slept"))))).toBe("value slept")
    expect(clock.pending).toBe(0)
    const late = withDeadline(deadline, never)
    await expect(clock.run(late)).rejects.toThrow("tool x took longer than 100 ms")
    expect(clock.now()).toBe(150)
    const cut = withDeadline(deadline, never)
    outer.abort("stop")
    expect(await outcome(cut)).toBe("stop")
    expect(await outcome(withDeadline(deadline, () => 1))).toBe("stop")
    expect(clock.pending).toBe(0)
  })

  test("aborts its own signal with the reason, also one that is asked for too late, or the controller it was given", async () => {
    const clock = createVirtualClock()
    const { signal } = new AbortController()
    const controller = new AbortController()
    const seen: unknown[] = []
    const waits = [
      withDeadline({ clock, timeoutMs: 10, signal, what: "a" }, (own) => (own.addEventListener("abort", () => seen.push(own.reason.message)), never())),
      bounded({ clock, timeoutMs: 10, signal, what: "b" }, async (limit) => {
        await clock.sleep(20)
        seen.push(limit.signal.reason.message)
      }),
      bounded({ clock, timeoutMs: 10, signal, what: "c", controller }, never),
    ].map(outcome)
    await clock.advance(30)
    expect(await Promise.all(waits)).toEqual(["timeout", "timeout", "timeout"])
    expect(seen).toEqual(["a took longer than 10 ms", "b took longer than 10 ms"])
    expect(controller.signal.reason.message).toBe("c took longer than 10 ms")
  })

  test("work that answers at once sets no timer, work of one length shares one", async () => {
    const clock = createVirtualClock()
    const { signal } = new AbortController()
    let timers = 0
    const counting = { ...clock, sleep: (ms: number, of?: AbortSignal) => (timers++, clock.sleep(ms, of)) }
    for (let i = 0; i < 50; i++) await bounded({ clock: counting, timeoutMs: 10, signal, what: "at once" }, () => i)
    expect(timers).toBe(0)
    const waits = Array.from({ length: 50 }, () => outcome(bounded({ clock: counting, timeoutMs: 10, signal, what: "slow" }, never)))
    expect([timers, clock.pending]).toEqual([1, 1])
    await clock.advance(10)
    expect(new Set(await Promise.all(waits))).toEqual(new Set(["timeout"]))
    expect([timers, clock.pending]).toEqual([1, 0])
  })

  test("any mix of lengths, ends and aborts: each settles at the time it would alone", async () => {
    const wait = fc.record({ startMs: fc.integer({ min: 0, max: 40 }), timeoutMs: fc.constantFrom(5, 10, 30), workMs: fc.integer({ min: 0, max: 45 }), outer: fc.integer({ min: 0, max: 2 }) })
    await fc.assert(
      fc.asyncProperty(fc.array(wait, { maxLength: 40 }), fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 3, maxLength: 3 }), async (waits, abortAtMs) => {
        const clock = createVirtualClock()
        const outers = abortAtMs.map(() => new AbortController())
        // A quarter past the millisecond, so that nothing happens at the same time as anything else.
        for (const [index, atMs] of abortAtMs.entries()) void clock.sleep(atMs + 0.25).then(() => outers[index]!.abort("outer"))
        const settled: [string, number][] = []
        const expected = waits.map(({ startMs, timeoutMs, workMs, outer }, index): [string, number] => {
          const abortMs = abortAtMs[outer]! + 0.25
          const ends: [string, number][] = [["outer", Math.max(startMs, abortMs)], ["timeout", startMs + timeoutMs], [`value ${index}`, startMs + workMs + 0.5]]
          return abortMs < startMs ? ["outer", startMs] : ends.reduce((first, next) => (next[1] < first[1] ? next : first))
        })
        for (const [index, { startMs, timeoutMs, workMs, outer }] of waits.entries())
          void clock.sleep(startMs).then(async () => {
            const result = await outcome(withDeadline({ clock, timeoutMs, signal: outers[outer]!.signal, what: "w" }, () => clock.sleep(workMs + 0.5).then(() => index)))
            settled[index] = [result, clock.now()]
          })
        await clock.advance(200)
        expect(settled).toEqual(expected)
        expect(clock.pending).toBe(0)
      }),
      { seed: 3, numRuns: 60 },
    )
  })
})
