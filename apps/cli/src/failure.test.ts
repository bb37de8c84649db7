import { expect, test } from "bun:test"
import { CohortError } from "@cohort/errors"
import { exitCodeOf, failureText } from "./failure.ts"
import { painter } from "./style.ts"

const plain = { debug: false, paint: painter(false) }

test("message and hint, never a stack", () => {
  const inner = new CohortError("runtime_unavailable", "no pip was found")
  const error = new CohortError("inference_failed", "the engine did not start", { hint: "Install Python.", cause: inner })
  expect(failureText(error, plain)).toBe("error: the engine did not start\n  because: no pip was found\n  Install Python.\n")
  const text = failureText(new TypeError("x is not a function"), plain)
  expect(text).toContain("COHORT_DEBUG=1")
  expect(text).not.toContain("    at ")
})

test("a cause that says the same is not said twice", () => {
  const cause = new CohortError("internal", "disk is full")
  expect(failureText(new CohortError("disk_full", "writing failed: disk is full", { cause }), plain)).toBe("error: writing failed: disk is full\n")
})

test("COHORT_DEBUG shows where it happened", () => {
  expect(failureText(new TypeError("x"), { ...plain, debug: true })).toMatch(/at .*failure\.test\.ts/)
})

test("exit codes", () => {
  expect(exitCodeOf(new CohortError("config_invalid", ""))).toBe(2)
  expect(exitCodeOf(new CohortError("plugin_not_found", ""))).toBe(2)
  expect(exitCodeOf(new CohortError("port_in_use", ""))).toBe(1)
  expect(exitCodeOf(new Error("x"))).toBe(1)
  expect(exitCodeOf(new CohortError("aborted", ""))).toBe(1)
  expect(exitCodeOf(new CohortError("aborted", ""), true)).toBe(130)
  expect(exitCodeOf(new CohortError("numeric", ""), true)).toBe(1)
})
