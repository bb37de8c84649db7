import { expect, test } from "bun:test"
import { systemClock } from "./system-clock.ts"

test("tells milliseconds since the epoch, and a sleep lasts at least as long as asked", async () => {
  const before = systemClock.now()
  expect(Math.abs(before - Date.now())).toBeLessThan(5_000)
  await systemClock.sleep(15)
  expect(systemClock.now() - before).toBeGreaterThanOrEqual(14)
})

test("an aborted sleep rejects with the signal's reason, at once when it was aborted before", async () => {
  const reason = new Error("enough")
  expect(await systemClock.sleep(60_000, AbortSignal.abort(reason)).catch((error: unknown) => error)).toBe(reason)
  const controller = new AbortController()
  const slept = systemClock.sleep(60_000, controller.signal).catch((error: unknown) => error)
  controller.abort(reason)
  expect(await slept).toBe(reason)
})
