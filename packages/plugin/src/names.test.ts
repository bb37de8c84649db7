import { describe, expect, test } from "bun:test"
import { nearest } from "./nearest.ts"
import { parseReference } from "./reference.ts"

describe("nearest", () => {
  test("finds typos, swaps and nothing far", () => {
    const names = ["reward-math", "reward-format", "env-arithmetic"]
    expect(nearest("reward-maht", names)).toBe("reward-math")
    expect(nearest("rewardmath", names)).toBe("reward-math")
    expect(nearest("reward-formt", names)).toBe("reward-format")
    expect(nearest("tracker-wandb", names)).toBeUndefined()
    expect(nearest("", names)).toBeUndefined()
  })
})

describe("parseReference", () => {
  test("splits module and part", () => {
    expect(parseReference("reward-math")).toMatchObject({ kind: "package", name: "reward-math", part: undefined })
    expect(parseReference("reward-math/equivalence")).toMatchObject({ name: "reward-math", part: "equivalence" })
    expect(parseReference("@cohort/reward-math")).toMatchObject({ name: "@cohort/reward-math", part: undefined })
    expect(parseReference("@cohort/reward-math/equivalence")).toMatchObject({ name: "@cohort/reward-math", part: "equivalence" })
    expect(parseReference("./mine.ts#length")).toMatchObject({ kind: "path", path: "./mine.ts", part: "length" })
    expect(parseReference("../a#b/mine.ts")).toMatchObject({ kind: "path", path: "../a", part: "b/mine.ts" })
    expect(parseReference("/abs/mine.ts")).toMatchObject({ kind: "path", path: "/abs/mine.ts", part: undefined })
  })

  test.each(["", " reward-math", "a//b", "a/b/c", "@cohort", "@cohort/a/b/c", "./mine.ts#", "a b", "a#b"])("%p is refused", (text) => {
    expect(() => parseReference(text)).toThrow("names no plugin")
  })
})
