import { expect, test } from "bun:test"
import { coresFor } from "./open-runner.ts"

test("a tiny model is one lane; others share the cores among at most four", () => {
  expect(coresFor(850_000, 1)).toEqual({ threads: 1, lanes: 1 })
  expect(coresFor(850_000, 2)).toEqual({ threads: 2, lanes: 1 })
  expect(coresFor(135_000_000, 1)).toEqual({ threads: 1, lanes: 1 })
  expect(coresFor(135_000_000, 2)).toEqual({ threads: 1, lanes: 2 })
  expect(coresFor(135_000_000, 16)).toEqual({ threads: 4, lanes: 4 })
})
