import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { linearRegex } from "./linear-regex.ts"

const plain = { ignoreCase: false, multiline: false, dotAll: false }

describe("linearRegex agrees with the engine", () => {
  const patterns = [
    "a", "^a", "a$", "^$", "^a*$", "(a|b)+c", "(?:ab)?a", "^(a+)+$", "a{2}", "a{2,}", "^a{1,3}$", "a??b", "^[^ab]+$", "[a-c]\\d", "\\ba\\b", "a\\Bb", "a.b", "^(a|ab)(c|bcd)$",
    "(?<name>a)b", "[\\]a-]b", "a|", "(|a)b", "()*a", "(a*)*b", "\\u0061\\x62", "^\\s*\\S+\\s*$", "\\.\\*", "[^]", "(a?){3}b", "\\p{L}{2}", "a/b-c",
  ]
  test.each(patterns)("%s", (pattern) => {
    const text = fc.array(fc.constantFrom("a", "b", "c", "d", "1", " ", "\n", ".", "*", "é", "/", "-", "]"), { maxLength: 8 }).map((chars) => chars.join(""))
    for (const flags of ["", "i", "m", "s", "ims"]) {
      const matches = linearRegex(pattern, { ignoreCase: flags.includes("i"), multiline: flags.includes("m"), dotAll: flags.includes("s") })
      const engine = new RegExp(pattern, `u${flags}`)
      fc.assert(
        fc.property(text, (text) => {
          expect(matches(text)).toBe(engine.test(text))
        }),
        { seed: 9, numRuns: 60 },
      )
    }
  })

  test("on generated patterns", () => {
    const pattern = fc.letrec<{ node: string }>((tie) => ({
      node: fc.oneof(
        { maxDepth: 3, withCrossShrink: true },
        fc.constantFrom("a", "b", "[ab]", ".", "\\b", "$", "^"),
        fc.tuple(tie("node"), tie("node")).map((parts) => parts.join("")),
        fc.tuple(tie("node"), tie("node")).map((parts) => `(${parts.join("|")})`),
        fc.tuple(tie("node"), fc.constantFrom("*", "+", "?", "{2}", "{0,2}", "{1,}")).map(([node, sign]) => `(?:${node})${sign}`),
      ),
    })).node
    fc.assert(
      fc.property(pattern, fc.array(fc.constantFrom("a", "b", "c", "\n"), { maxLength: 6 }), (pattern, chars) => {
        expect(linearRegex(pattern, plain)(chars.join(""))).toBe(new RegExp(pattern, "u").test(chars.join("")))
      }),
      { seed: 12, numRuns: 400 },
    )
  })
})

test.each(["^(a+)+$", "^(a|a)*$", "^(a*)*$", "(.*a){12}", "^(\\w+\\s?)*$", "a*a*a*a*a*b"])("%s stays quick on a text made to hang it", (pattern) => {
  const startedAt = performance.now()
  expect(linearRegex(pattern, { ...plain, dotAll: true })(`${"a".repeat(20_000)}!`)).toBe(pattern.includes("{12}"))
  // A backtracking engine needs more steps than there are atoms for the first three.
  expect(performance.now() - startedAt).toBeLessThan(2_000)
})

test.each([
  ["(a)\\1", "back-reference"],
  ["(?<n>a)\\k<n>", "back-reference"],
  ["(?=a)b", "look-around"],
  ["(?<!a)b", "look-around"],
  ["(a", "Invalid regular expression"],
  ["a{2000}", "more than 1000 times"],
  ["(a{100}){100}", "more than 5000 states"],
])("%s is refused with the reason", (pattern, reason) => {
  expect(() => linearRegex(pattern, plain)).toThrow(reason)
  expect(() => linearRegex(pattern, plain)).toThrow(JSON.stringify(pattern))
})
