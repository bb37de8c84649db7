import { describe, expect, test } from "bun:test"
import type { Message } from "./message.ts"
import { lastUserText, messageText } from "./text.ts"

const talk: readonly Message[] = [
  { role: "system", content: "be brief" },
  { role: "user", content: "first" },
  { role: "assistant", content: "ok", reasoning: "hidden" },
  { role: "user", content: "second" },
  { role: "tool", content: "42" },
]

describe("text of messages", () => {
  test("lastUserText takes the last user message, not the last message", () => {
    expect(lastUserText(talk)).toBe("second")
    expect(lastUserText("37+58=")).toBe("37+58=")
    expect(lastUserText([])).toBe("")
  })

  test("messageText leaves reasoning out", () => {
    expect(messageText(talk.slice(2, 4))).toBe("ok\nsecond")
    expect(messageText({ role: "assistant", content: "a", reasoning: "r" })).toBe("a")
  })
})
