// Is the answer the reference? The arguments are not alike: a reference may leave out what an answer may say, not the other way.
import { type Answer, readAnswer } from "./answer.ts"
import { normalise } from "./normalise.ts"
import { numbersIn } from "./extract.ts"
import { sameValue } from "./rational.ts"

export interface CompareOptions {
  /** `10%` reads as 10, for references that leave the sign out; else it is 1/10. */
  readonly ignorePercent: boolean
  /** Prose around one number is allowed, as after "the answer is". */
  readonly prose: boolean
}

/**
 * True where the answer equals the reference: the same text, the same exact number, the same set, the same tuple.
 * A parsed "no" stands; there is no second, softer look.
 *
 * @param reference The right answer.
 * @param answer What the model gave.
 * @example sameAnswer("1/2", "\\frac{2}{4}", { ignorePercent: false, prose: false }) // true
 */
export function sameAnswer(reference: string, answer: string, options: CompareOptions): boolean {
  const [plainReference, plainAnswer] = [normalise(reference), normalise(answer)]
  if (plainReference === plainAnswer) return plainReference !== ""
  const [expected, given] = [readAnswer(reference, options.ignorePercent), readAnswer(answer, options.ignorePercent)]
  if (expected.kind === "number" && given.kind !== "number" && options.prose) {
    const numbers = numbersIn(plainAnswer)
    if (numbers.length === 1) return matches(expected, readAnswer(numbers[0]!, options.ignorePercent))
  }
  if (/^[A-Z]$/.test(plainReference) && new RegExp(`^\\(?${plainReference}[).:]`).test(plainAnswer)) return true
  return matches(expected, given)
}

function matches(expected: Answer, given: Answer): boolean {
  if (expected.name !== undefined && given.name !== undefined && expected.name !== given.name) return false
  if (expected.kind === "number" && given.kind === "number") {
    const [unit, other] = [expected.quantity.unit, given.quantity.unit]
    return (unit === undefined || other === undefined || unit === other) && sameValue(expected.quantity.value, given.quantity.value)
  }
  if (expected.kind === "list" && given.kind === "list") return sameList(expected, given)
  return expected.kind === "text" && given.kind === "text" && expected.text !== "" && expected.text === given.text
}

type List = Extract<Answer, { kind: "list" }>

/** Sets and bare lists in any order, each value once or more; tuples in order, and an answer may leave their brackets out. */
function sameList(expected: List, given: List): boolean {
  const ordered = expected.open === "(" || expected.open === "["
  if (given.open !== "" && given.open !== expected.open && !(expected.open === "" && given.open === "⦃")) return false
  if (ordered) {
    if (given.open !== "" && given.close !== expected.close) return false
    return expected.items.length === given.items.length && expected.items.every((item, index) => matches(item, given.items[index]!))
  }
  const covers = expected.items.every((item) => given.items.some((other) => matches(item, other)))
  return covers && given.items.every((item) => expected.items.some((other) => matches(other, item)))
}
