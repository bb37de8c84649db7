import { expect, test } from "bun:test"
import { CohortError, isCohortError } from "@cohort/errors"
import { answerCalls, type Handlers } from "./answer.ts"
import { createCaller } from "./caller.ts"
import type { Port } from "./message.ts"
import { startThread } from "./start.ts"

function connected(handlers: Handlers) {
  const { port1, port2 } = new MessageChannel()
  port1.start()
  port2.start()
  answerCalls(port2 as unknown as Port, handlers)
  return { caller: createCaller(port1 as unknown as Port), close: () => port1.close() }
}

/** What a call fails with. Bun's `rejects` blocks the loop that a message needs to arrive. */
const codeOf = (call: Promise<unknown>): Promise<unknown> => call.then(() => "no error", (thrown: unknown) => (isCohortError(thrown) ? thrown.code : thrown))

test("calls are answered in their order, arrays whole", async () => {
  const order: number[] = []
  const { caller, close } = connected({
    async slow(n: number) {
      await Bun.sleep(n === 1 ? 20 : 0)
      order.push(n)
      return { n, values: Float32Array.of(n, n) }
    },
  })
  const results = await Promise.all([caller.call("slow", 1), caller.call("slow", 2)])
  expect(order).toEqual([1, 2])
  expect(results).toEqual([{ n: 1, values: Float32Array.of(1, 1) }, { n: 2, values: Float32Array.of(2, 2) }])
  close()
})

test("an array that fills its buffer is moved, wherever it is in the result", async () => {
  const values = Float32Array.of(1, 2)
  const { caller, close } = connected({ nested: () => [{ values, again: values }] })
  expect(await caller.call<unknown>("nested")).toEqual([{ values: Float32Array.of(1, 2), again: Float32Array.of(1, 2) }])
  expect(values.length).toBe(0)
  close()
})

test("a view of a larger buffer is copied, not torn out of it", async () => {
  const whole = Float32Array.of(1, 2, 3, 4)
  const { caller, close } = connected({ part: () => whole.subarray(1, 3) })
  expect(await caller.call<Float32Array>("part")).toEqual(Float32Array.of(2, 3))
  expect(whole.length).toBe(4)
  close()
})

test("errors stay typed with their hint, and the next call works", async () => {
  const { caller, close } = connected({
    fail() {
      throw new CohortError("numeric", "loss is NaN", { hint: "Lower the rate.", details: { step: 3 } })
    },
    full() {
      throw Object.assign(new Error("write failed"), { code: "ENOSPC" })
    },
    uncloneable: () => ({ run: () => 1 }),
    fine: () => 7,
  })
  const error = await caller.call("fail").catch((thrown: unknown) => thrown)
  expect(isCohortError(error) && [error.code, error.message, error.hint, error.details]).toEqual(["numeric", "loss is NaN", "Lower the rate.", { step: 3 }])
  expect(await codeOf(caller.call("full"))).toBe("disk_full")
  expect(await codeOf(caller.call("uncloneable"))).toBe("internal")
  expect(await codeOf(caller.call("absent"))).toBe("internal")
  expect(await caller.call<number>("fine")).toBe(7)
  close()
})

test("when the thread is gone, open and later calls fail", async () => {
  const { caller, close } = connected({ hang: () => new Promise(() => undefined) })
  const open = caller.call("hang").catch((thrown: unknown) => thrown)
  caller.fail(new CohortError("worker_failed", "the trainer thread ended"))
  expect(isCohortError(await open)).toBe(true)
  expect(isCohortError(await caller.call("hang").catch((thrown: unknown) => thrown))).toBe(true)
  close()
})

function program(source: string): { readonly worker: Worker; free(): void } {
  const url = URL.createObjectURL(new Blob([`import { answerCalls } from ${JSON.stringify(new URL("./answer.ts", import.meta.url).href)}\n${source}`], { type: "text/javascript" }))
  return { worker: new Worker(url), free: () => URL.revokeObjectURL(url) }
}

test("a thread answers until it is ended, once", async () => {
  const { worker, free } = program("answerCalls(globalThis, { add: (a, b) => a + b })")
  const thread = startThread(worker, "the adding thread")
  expect(await thread.call<number>("add", 1, 2)).toBe(3)
  thread.end()
  thread.end()
  expect(await thread.call("add", 1, 2).catch((thrown: unknown) => String(thrown))).toBe("worker_failed: the adding thread is closed")
  free()
})

test("a thread that ends by itself fails what waits, with its code and the hint", async () => {
  const { worker, free } = program("answerCalls(globalThis, { die: () => process.exit(3) })")
  const thread = startThread(worker, "the dying thread", "Start it again.")
  expect(await thread.call("die").catch((thrown: unknown) => String(thrown))).toBe("worker_failed: the dying thread ended with code 3\n  Start it again.")
  thread.end()
  free()
})

test("a thread whose program cannot be read fails what waits", async () => {
  const { worker, free } = program("import './absent-file.ts'")
  const thread = startThread(worker, "the absent thread")
  expect(await codeOf(thread.call("any"))).toBe("worker_failed")
  thread.end()
  free()
})
