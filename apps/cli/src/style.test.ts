import { expect, test } from "bun:test"
import { fit, oneLine, pad, painter } from "./style.ts"
import { wantsColor } from "./shell.ts"
import { testOutput } from "./testing.ts"

test("cuts by width on the terminal, not by length", () => {
  expect(fit("abcdef", 6)).toBe("abcdef")
  expect(fit("abcdefg", 6)).toBe("abcde…")
  expect(fit("日本語", 5)).toBe("日本…")
  expect(pad("日本", 6)).toBe("日本  ")
})

test("control characters cannot reach the terminal", () => {
  expect(oneLine("a\n\u001B[31mb\u009B\u2028")).toBe("a\\n\\u001b[31mb\\u009b\\u2028")
})

test("NO_COLOR wins, then FORCE_COLOR, then the terminal", () => {
  const terminal = testOutput(true)
  expect(wantsColor(terminal, {})).toBe(true)
  expect(wantsColor(terminal, { NO_COLOR: "1", FORCE_COLOR: "1" })).toBe(false)
  expect(wantsColor(terminal, { NO_COLOR: "" })).toBe(true)
  expect(wantsColor(terminal, { TERM: "dumb" })).toBe(false)
  expect(wantsColor(testOutput(false), {})).toBe(false)
  expect(wantsColor(testOutput(false), { FORCE_COLOR: "1" })).toBe(true)
  expect(painter(false)("red", "x")).toBe("x")
  expect(painter(true)("red", "x")).toContain("\u001B[")
})
