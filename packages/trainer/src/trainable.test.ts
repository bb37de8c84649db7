import { expect, test } from "bun:test"
import { resolveConfig } from "@cohort/config"
import { refusalOf } from "./trainable.ts"

const config = (maskTruncated: boolean) => resolveConfig({ model: { path: "m" }, data: { source: "d" }, rewards: ["r"], objective: { maskTruncated } })
const longest = 16
const group = (...samples: readonly (readonly [tokens: number, truncated: boolean])[]) => ({ samples: samples.map(([tokens, truncated]) => ({ tokenIds: new Int32Array(tokens), truncated })) })

test("a group is refused when no sample of it fits the budget, or all that fit are cut and masked", () => {
  expect(refusalOf(config(false), longest, group([16, true], [17, false]))).toBeNull()
  expect(refusalOf(config(false), longest, group([17, false], [30, true]))).toBe("over_token_budget")
  expect(refusalOf(config(true), longest, group([16, true], [17, false]))).toBe("all_truncated")
  expect(refusalOf(config(true), longest, group([16, true], [8, false]))).toBeNull()
})
