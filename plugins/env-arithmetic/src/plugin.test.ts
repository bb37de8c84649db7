import { describe, expect, test } from "bun:test"
import type { RowSource } from "@cohort/plugin"
import { conformance } from "@cohort/plugin/testing"
import fc from "fast-check"
import * as v from "valibot"
import manifest from "../package.json"
import { type ArithmeticOptions, arithmeticOptions } from "./options.ts"
import plugin from "./plugin.ts"
import { valueOf } from "./space.ts"
import { arithmeticTasks } from "./taskset.ts"

const tasks = (options: v.InferInput<typeof arithmeticOptions> = {}) => arithmeticTasks(v.parse(arithmeticOptions, options))
const rows = (source: RowSource) => Array.from({ length: source.size }, (_, index) => source.at(index))
const promptsOf = (source: RowSource) => new Set(rows(source).map((row) => JSON.stringify(row.prompt)))

test("conforms to the plugin contract", async () => {
  expect(await conformance(plugin, { manifest })).toEqual({ problems: [], ran: ["environments.arithmetic"] })
  const other = { "environments.arithmetic": { style: "chat", operations: ["+", "-", "*"], maxTerms: 3, digits: 1, heldOut: 100 } }
  expect((await conformance(plugin, { options: other })).problems).toEqual([])
})

describe("the default task set", () => {
  const { train, heldOut } = tasks()

  test("is the whole pair space, 512 rows of it held out", () => {
    expect(heldOut.size).toBe(512)
    expect(train.size).toBe(10_000 - 512)
    const trained = promptsOf(train)
    const held = promptsOf(heldOut)
    expect(trained.size).toBe(train.size)
    expect(held.size).toBe(512)
    expect(held.intersection(trained).size).toBe(0)
    expect(held.union(trained).size).toBe(10_000)
  })

  test("writes `37+58=` with two digits each, and a plain answer", () => {
    for (const row of [...rows(heldOut), ...rows(train).slice(0, 500)]) {
      const pad = (term: unknown) => String(term).padStart(2, "0")
      expect(row.prompt).toBe(`${pad(row["a"])}+${pad(row["b"])}=`)
      expect(row["answer"]).toBe(String(Number(row["a"]) + Number(row["b"])))
      expect(row["operation"]).toBe("+")
    }
    const sum = rows(train).concat(rows(heldOut)).find((row) => row["a"] === 37 && row["b"] === 58)
    expect(sum).toEqual({ id: "37+58", prompt: "37+58=", answer: "95", a: 37, b: 58, operation: "+" })
    const small = rows(train).concat(rows(heldOut)).find((row) => row["a"] === 7 && row["b"] === 0)
    expect(small).toMatchObject({ prompt: "07+00=", answer: "7" })
  })

  test("another seed holds out other rows", () => {
    const overlap = promptsOf(heldOut).intersection(promptsOf(tasks({ seed: 1 }).heldOut)).size
    // 512 * 512 / 10,000 = 26 by chance.
    expect(overlap).toBeLessThan(60)
  })
})

test("train and held-out are apart for any options", () => {
  fc.assert(
    fc.property(
      fc.record({
        digits: fc.constant(1),
        operations: fc.subarray(["+", "-", "*"] as const, { minLength: 1 }),
        maxTerms: fc.integer({ min: 2, max: 3 }),
        heldOut: fc.integer({ min: 0, max: 99 }),
        seed: fc.nat(),
        style: fc.constantFrom("bare" as const, "chat" as const),
        zeroPad: fc.boolean(),
      }),
      (options: ArithmeticOptions) => {
        const { train, heldOut } = arithmeticTasks(options)
        expect(promptsOf(train).isDisjointFrom(promptsOf(heldOut))).toBe(true)
        expect(promptsOf(train).size + promptsOf(heldOut).size).toBe(train.size + heldOut.size)
      },
    ),
    { seed: 11, numRuns: 8 },
  )
})

test("the chat style asks in one user message, without padding", () => {
  const row = rows(tasks({ style: "chat" }).train).find((row) => row["a"] === 7 && row["b"] === 58)
  expect(row?.prompt).toEqual([{ role: "user", content: "What is 7+58?" }])
})

test("padding can be left off", () => {
  expect(rows(tasks({ zeroPad: false, heldOut: 0 }).train).some((row) => row.prompt === "7+5=")).toBe(true)
})

test("products come first, and 0 is never -0", () => {
  expect(valueOf({ terms: [2, 3, 4], operations: ["+", "*"] })).toBe(14)
  expect(valueOf({ terms: [9, 2, 3], operations: ["-", "*"] })).toBe(3)
  expect(valueOf({ terms: [2, 3, 4], operations: ["*", "-"] })).toBe(2)
  expect(Object.is(valueOf({ terms: [0, 0, 5], operations: ["-", "*"] }), 0)).toBe(true)
})

test("rows of three terms carry all of them; the answer agrees with BigInt", () => {
  const { train } = tasks({ digits: 4, operations: ["*"], maxTerms: 3 })
  for (let index = 0; index < 200; index++) {
    const row = train.at(index)
    const terms = (row["terms"] ?? [row["a"], row["b"]]) as readonly number[]
    expect(row["answer"]).toBe(String(terms.reduce((product, term) => product * BigInt(term), 1n)))
  }
})

test("refuses what cannot be, with numbers", () => {
  expect(() => tasks({ digits: 1, heldOut: 100 })).toThrow("heldOut is 100, but there are only 100 problems")
  expect(() => tasks({ digits: 7, maxTerms: 5 })).toThrow("7 digits and 5 terms")
  expect(() => tasks().train.at(9_488)).toThrow("no row 9488, the size is 9488")
  expect(v.safeParse(arithmeticOptions, { operations: ["+", "+"], digits: 0 }).issues).toHaveLength(2)
})
