import { expect, test } from "bun:test"
import { fileURLToPath } from "node:url"
import { slotsFor } from "./slots.ts"

const quickstartModel = fileURLToPath(new URL("../../../models/arithmetic-1m", import.meta.url))

test("a tiny model decodes a whole step at once, and never more than one", () => {
  expect(slotsFor(quickstartModel, 256)).toBe(256)
  expect(slotsFor(quickstartModel, 1024)).toBe(256)
  expect(slotsFor(quickstartModel, 32)).toBe(32)
})
