import { expect, test } from "bun:test"
import { CohortError, isCohortError } from "@cohort/errors"
import { answerCalls, createCaller, type Port } from "./call.ts"

function connected(handlers: Readonly<Record<string, (...args: never[]) => unknown>>) {
  const { port1, port2 } = new MessageChannel()
  port1.start()
  port2.start()
  answerCalls(port2 as unknown as Port, handlers)
  return { caller: createCaller(port1 as unknown as Port), close: () => port1.close() }
}

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
      throw new CohortError("numeric", "loss is NaN", { hint: "Lower the rate." })
    },
    fine: () => 7,
  })
  const error = await caller.call("fail").catch((thrown: unknown) => thrown)
  expect(isCohortError(error) && [error.code, error.message, error.hint]).toEqual(["numeric", "loss is NaN", "Lower the rate."])
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
