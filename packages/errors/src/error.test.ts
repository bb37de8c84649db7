import { expect, test } from "bun:test"
import fc from "fast-check"
import { CohortError, isCohortError, messageOf, toCohortError } from "./error.ts"

test("an error says its code, its message and what to do", () => {
  const error = new CohortError("file_invalid", "a.json: line 3", { hint: "Fix the line.", details: { line: 3 } })
  expect(String(error)).toBe("file_invalid: a.json: line 3\n  Fix the line.")
  expect(String(new CohortError("timeout", "no answer"))).toBe("timeout: no answer")
  expect(error).toBeInstanceOf(Error)
  expect([error.name, error.code, error.details]).toEqual(["CohortError", "file_invalid", { line: 3 }])
  expect("cause" in error).toBe(false)
})

test("an error of another copy of the package is known", () => {
  const foreign = { [Symbol.for("cohort.error")]: true, code: "internal" }
  expect(isCohortError(foreign)).toBe(true)
  expect([new Error("x"), null, undefined, "cohort.error", {}].map(isCohortError)).toEqual([false, false, false, false, false])
})

test("what the system reports becomes a code of its own", () => {
  const system = (code: string): Error => Object.assign(new Error("write failed"), { code })
  expect(["ENOSPC", "EDQUOT", "EADDRINUSE", "ENOENT"].map((code) => toCohortError(system(code), "file_invalid").code)).toEqual(["disk_full", "disk_full", "port_in_use", "file_invalid"])
  const aborted = new AbortController()
  aborted.abort()
  expect(toCohortError(aborted.signal.reason, "inference_failed").code).toBe("aborted")
  expect(toCohortError(Object.assign(new Error("late"), { name: "TimeoutError" })).code).toBe("timeout")
})

test("nothing thrown loses its message or its cause, and a typed error stays itself", () => {
  fc.assert(
    fc.property(fc.anything(), fc.string(), (thrown, context) => {
      const error = toCohortError(thrown, "worker_failed", context)
      expect(error.message).toBe(`${context}: ${messageOf(thrown)}`)
      expect(error.cause).toBe(thrown)
      expect(error.code).toBe("worker_failed")
      expect(toCohortError(error, "internal", "again")).toBe(error)
    }),
    { numRuns: 200, seed: 7 },
  )
})
