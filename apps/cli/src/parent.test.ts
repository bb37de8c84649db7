import { expect, test } from "bun:test"
import { isAlive, parentDeath } from "./parent.ts"

test("aborts when the process is gone, not before", async () => {
  const child = Bun.spawn(["sleep", "60"])
  using watch = parentDeath(child.pid, 10)
  await Bun.sleep(40)
  expect(watch.signal.aborted).toBe(false)
  child.kill("SIGKILL")
  await child.exited
  await Bun.sleep(60)
  expect(watch.signal.aborted).toBe(true)
  expect(isAlive(process.pid)).toBe(true)
})

test("without a process it never aborts", () => {
  using watch = parentDeath(undefined)
  expect(watch.signal.aborted).toBe(false)
})
