import { expect, test } from "bun:test"
import { watchInterrupts } from "./signals.ts"
import { testShell } from "./testing.ts"

test("the first signal aborts, a second one ends the process with 130", () => {
  const shell = testShell()
  const calls: string[] = []
  using interrupts = watchInterrupts(shell, { onFirst: (name) => calls.push(name), onSecond: () => calls.push("second") })
  expect(interrupts.interrupted).toBe(false)
  shell.send("SIGINT")
  expect(interrupts.signal.aborted).toBe(true)
  expect(interrupts.signal.reason).toMatchObject({ code: "aborted" })
  expect(interrupts.interrupted).toBe(true)
  expect(shell.exits).toEqual([])
  shell.nowMs = 1000
  shell.send("SIGTERM")
  expect(calls).toEqual(["SIGINT", "second"])
  expect(shell.exits).toEqual([130])
})

test("one key press that arrives twice, from the terminal and from a launcher, is one", () => {
  const shell = testShell()
  using interrupts = watchInterrupts(shell, { onFirst: () => {} })
  shell.send("SIGINT")
  shell.nowMs = 40
  shell.send("SIGINT")
  expect(interrupts.interrupted).toBe(true)
  expect(shell.exits).toEqual([])
})

test("nothing is heard after the end", () => {
  const shell = testShell()
  const interrupts = watchInterrupts(shell, { onFirst: () => {} })
  interrupts[Symbol.dispose]()
  shell.send("SIGINT")
  expect(interrupts.interrupted).toBe(false)
})
