import { describe, expect, test } from "bun:test"
import { conformance, fakeRollout, garbageTexts, type RewardCase, testReward } from "@cohort/plugin/testing"
import fc from "fast-check"
import * as v from "valibot"
import manifest from "../package.json"
import plugin, { equivalence, mathOptions, scoreAnswer } from "./plugin.ts"

const given = (answer: string | number, text: string, expect: RewardCase["expect"]): RewardCase => ({ name: `${answer} <- ${text}`, row: { answer }, text, expect })
const defaults = v.parse(mathOptions, {})

test("conforms to the plugin contract", async () => {
  expect(await conformance(plugin, { manifest })).toEqual({ problems: [], ran: ["rewards.equivalence"] })
  expect((await conformance(plugin, { options: { "rewards.equivalence": { strict: true, column: "solution" } } })).problems).toEqual([])
})

test("right and wrong answers, as public reports have them", async () => {
  const cases = [
    // The last closed box counts.
    given("18", String.raw`With n even I get \boxed{12}, but n must be odd. Final: \boxed{18}`, 1),
    given("12", String.raw`With n even I get \boxed{12}, but n must be odd. Final: \boxed{18}`, 0),
    given("14", String.raw`\boxed{11} hmm, sorry: \boxed{14} (see {note})`, 1),
    given("11", String.raw`\boxed{11} hmm, sorry: \boxed{14} (see {note})`, 0),
    given("6", String.raw`The sum is \boxed{6}; adding in reverse order gives \boxed{6} too.`, 1),
    given("5", String.raw`Put it in \boxed{}. So \boxed{5}. Always use \boxed{ }`, 1),
    // Sets are equal or not; tuples have an order.
    given("{-3, 3}", String.raw`\boxed{3}`, 0),
    given("{-3, 3}", String.raw`\boxed{3, -3}`, 1),
    given("{-3, 3}", String.raw`\boxed{-3, 3, 4}`, 0),
    given(String.raw`\{-3, 3\}`, String.raw`\boxed{\left\{3, -3\right\}}`, 1),
    given(String.raw`\pm 3`, String.raw`\boxed{x = 3 \text{ or } x = -3}`, 1),
    given("(1,2)", String.raw`\boxed{(1, 2)}`, 1),
    given("(1,2)", String.raw`\boxed{(2, 1)}`, 0),
    given("(0, 1]", String.raw`\boxed{(0, 1)}`, 0),
    given("(0, 1]", String.raw`\boxed{\left(0, 1\right]}`, 1),
    // Mixed numbers are read whole.
    given("3", String.raw`\boxed{3 1/4}`, 0),
    given("9", String.raw`\boxed{5 9/2}`, 0),
    given("5", String.raw`\boxed{5 9/2}`, 0),
    given("9/2", "so it is 5 9/2", 0),
    given("13/4", String.raw`\boxed{3 1/4}`, 1),
    given("13/4", String.raw`\boxed{3\frac{1}{4}}`, 1),
    given("-13/4", String.raw`\boxed{-3 1/4}`, 1),
    given("-13/4", "I get -3 1/4", 1),
    // Markup.
    given("58", "... 120 + 204 = 324, so it fits. Final answer: **58**", 1),
    given("58", "**Answer:** 58", 1),
    given("58", "The answer is $58$.", 1),
    given("58", "The answer is: `58`, since 29 doubled is 58", 1),
    // Unicode.
    given("42", "\\boxed{４２}", 1),
    given("42", "\\boxed{42\u200b}", 1),
    given("42", "\\boxed{4\u200d2}", 0),
    given("2", "4\u200d2", 0),
    given("-42", "\\boxed{\u221242}", 1),
    given("3.5", "\\boxed{3½}", 1),
    given("52", "\\boxed{5²}", 0),
    // Units and qualifiers.
    given("60", String.raw`\boxed{60^\circ}`, 1),
    given("60", String.raw`\boxed{60 degrees}`, 1),
    given("60", String.raw`\boxed{x = 60}`, 1),
    given("60", String.raw`\boxed{60\text{ for all } n}`, 1),
    given("35", String.raw`\boxed{35 cm}`, 1),
    given("35", String.raw`\boxed{35\text{ cm}}`, 1),
    given("35 cm", String.raw`\boxed{35 mm}`, 0),
    given("35 cm", String.raw`\boxed{35}`, 1),
    given("35 centimeters", "That makes 35cm", 1),
    given("3", String.raw`\boxed{3x}`, 0),
    given("3", "we are left with 3x", 0),
    // An answer line after the box beats it; a letter in a formula is no answer.
    given("A", `The key fact is ${String.raw`\boxed{\Omega = 2 F L}`}.\nAnswer: A`, 1),
    given("B", String.raw`\boxed{(B)}`, 1),
    given("B", "The answer is B) 35 cm", 1),
    given("B", "The answer is A) B", 0),
    given("7", `Answer: 5\nwait, ${String.raw`\boxed{7}`}`, 1),
    // Extraction twice is extraction once; references may carry a box or a #### line.
    given("24", String.raw`\boxed{24}`, 1),
    given(String.raw`\boxed{24}`, "24", 1),
    given("5 + 6 = 11 eggs\n#### 1,100", "#### 1100", 1),
    // Reference and answer are not exchangeable.
    given("x = 4", String.raw`\boxed{4}`, 1),
    given("4", String.raw`\boxed{x = 4}`, 1),
    given("x = 4", String.raw`\boxed{y = 4}`, 0),
    given("(1,2)", String.raw`\boxed{1,2}`, 1),
    given("1, 2", String.raw`\boxed{(1,2)}`, 0),
    // Text and formulas: spelling apart, the same.
    given("2x", String.raw`\boxed{2 \cdot x}`, 1),
    given("x^2+1", String.raw`\boxed{x^{2} + 1}`, 1),
    given(String.raw`\frac{\pi}{3}`, String.raw`\boxed{\pi/3}`, 1),
    given(String.raw`(-\infty, 2]`, String.raw`\boxed{(-\infty,2]}`, 1),
    given("Paris", "<answer>paris</answer>", 1),
    given("10", String.raw`\boxed{10:30}`, 0),
    given("-3", "5-3", 0),
    // Reasoning.
    given("9", "The tag <think> opens reasoning. Answer: 9", 1),
    given("9", "<think> still going, 9", 0),
    given("9", String.raw`<think>\boxed{8}</think> 9`, 1),
    given("9", String.raw`maybe \boxed{8}</think> 9`, 1),
    given("9", "<think>try 3</think>\n<answer>9</answer>", 1),
    given("9", "<answer>9", 1),
  ]
  expect(await testReward(equivalence, cases)).toEqual([])
})

test("numbers are compared exactly, whatever their spelling", async () => {
  const same: readonly (readonly [string | number, string])[] = [
    ["1/2", "0.5"], ["0.5", String.raw`\frac12`], ["0.5", String.raw`\dfrac{2}{4}`], [0.1, "1/10"], ["1000", "1,000"], ["1000", "1{,}000"], ["1000", "1 000"],
    ["1000000", "1e6"], ["150000", String.raw`1.5 \times 10^5`], ["0.001", "10^{-3}"], ["0.1", String.raw`10\%`], ["10%", "0.1"], ["-1/2", String.raw`-\frac{1}{2}`],
    ["-1/2", String.raw`\frac{-1}{2}`], [String.raw`2\sqrt{2}`, String.raw`\sqrt{8}`], [String.raw`\frac{\sqrt{3}}{3}`, String.raw`\frac{1}{\sqrt3}`], ["2", String.raw`\sqrt4`],
    ["42", "$42"], ["42", String.raw`\$42.00`], ["0", "-0"], [".5", "0.50"], ["7", "7."], ["95", "37+58 = 95"], ["1,000, 2,000", "2000 and 1000"], [1e21, "10^21"],
  ]
  const other: readonly (readonly [string | number, string])[] = [
    ["95", "37+58"], ["42", "6*7"], ["0.333", "1/3"], ["10", "10%"], ["1", "1/0"], ["100", "1,00"], ["12", "1,2"], ["0.30000000000000004", "0.3"],
    ["42", "42nd x"], ["3", "3 or 4"], ["8", String.raw`\sqrt{-64}`], ["9007199254740993", "9007199254740992"], ["4", String.raw`\sqrt{2`],
  ]
  const boxed = (text: string) => `\\boxed{${text}}`
  expect(await testReward(equivalence, same.map(([answer, text]) => given(answer, boxed(text), 1)))).toEqual([])
  expect(await testReward(equivalence, other.map(([answer, text]) => given(answer, boxed(text), 0)))).toEqual([])
})

test("percent can be read as a plain number", async () => {
  expect(await testReward(equivalence, [given("20", "The answer is 20%.", 1), given("20%", "20", 1)], { percent: "ignore" })).toEqual([])
})

test("strict takes the whole completion, character for character", async () => {
  const cases = [
    given("95", "95", 1), given("95", " 95\n", 1), given(95, "95", 1), given("95", "095", 0), given("95", "95.0", 0), given("95", "37+58=95", 0),
    given("95", "95 95", 0), given("95", "", 0), given("95", "９５", 0), given("95", String.raw`\boxed{95}`, 0),
  ]
  expect(await testReward(equivalence, cases, { strict: true })).toEqual([])
})

test("ways to find the answer can be chosen", async () => {
  const text = String.raw`\boxed{1} <answer>2</answer> result -> 3, about 4`
  const cases = (answer: string) => [given(answer, text, 1)]
  expect(await testReward(equivalence, cases("1"))).toEqual([])
  expect(await testReward(equivalence, cases("2"), { extract: ["tag"] })).toEqual([])
  expect(await testReward(equivalence, cases("3"), { extract: ["marker"], markers: ["->"] })).toEqual([])
  expect(await testReward(equivalence, cases("4"), { extract: ["number"] })).toEqual([])
  expect(await testReward(equivalence, [given("5", "just 5", 0)], { extract: ["boxed", "tag"] })).toEqual([])
})

describe("a row without a reference", () => {
  test.each([[{}], [{ answer: null }], [{ answer: "" }], [{ answer: " " }], [{ answer: true }], [{ answer: ["4"] }]])("%p fails and names the column", (row) => {
    const result = scoreAnswer(fakeRollout({ text: "4", row }), defaults)
    expect(result).toMatchObject({ kind: "failed", retryable: false, error: expect.stringContaining('column "answer"') })
  })

  test("a column of another name is read and named", async () => {
    const options = { column: "solution" }
    expect(await testReward(equivalence, [{ text: "4", row: { solution: "4" }, expect: 1 }, { text: "4", row: { answer: "4" }, expect: "failed" }], options)).toEqual([])
  })
})

test("the reason says what was compared", () => {
  expect(scoreAnswer(fakeRollout({ text: String.raw`\boxed{12}`, row: { answer: "18" } }), defaults)).toEqual({ kind: "ok", value: 0, reason: 'boxed answer "12" is not "18"' })
  expect(scoreAnswer(fakeRollout({ text: "no idea", row: { answer: "18" } }), defaults)).toEqual({ kind: "ok", value: 0, reason: "the completion has no final answer" })
})

test("a reference always scores 1 against itself, in a box or bare", () => {
  const fraction = fc.tuple(fc.integer({ min: -999, max: 999 }), fc.integer({ min: 1, max: 99 })).map(([n, d]) => `${n}/${d}`)
  const decimal = fc.integer({ min: -99_999, max: 99_999 }).map((n) => (n / 100).toFixed(2))
  const listed = fc.array(fc.integer({ min: -50, max: 50 }), { minLength: 2, maxLength: 4 }).map((items) => `{${items.join(", ")}}`)
  fc.assert(
    fc.property(fc.oneof(fraction, decimal, listed, fc.constantFrom("A", "yes", "x^2+1", "(1, 2)")), (answer) => {
      for (const text of [`\\boxed{${answer}}`, `<answer>${answer}</answer>`, `#### ${answer}`])
        expect(scoreAnswer(fakeRollout({ text, row: { answer } }), defaults)).toMatchObject({ value: 1 })
    }),
    { seed: 5, numRuns: 150 },
  )
})

test("two different fractions never score 1, equal ones always do", () => {
  const part = fc.tuple(fc.integer({ min: -40, max: 40 }), fc.integer({ min: 1, max: 40 }))
  fc.assert(
    fc.property(part, part, ([a, b], [c, d]) => {
      const result = scoreAnswer(fakeRollout({ text: `\\boxed{\\frac{${c}}{${d}}}`, row: { answer: `${a}/${b}` } }), defaults)
      expect(result).toMatchObject({ value: a * d === b * c ? 1 : 0 })
    }),
    { seed: 6, numRuns: 200 },
  )
})

test("garbage as the reference gives a verdict or a failure, not a throw", () => {
  for (const answer of garbageTexts) expect(["ok", "failed"]).toContain(scoreAnswer(fakeRollout({ text: String.raw`\boxed{42}`, row: { answer } }), defaults).kind)
})
