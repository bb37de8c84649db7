// Reads one number as people write answers, exactly. Sums and products are not worked out: "37+58" is no answer to 37+58.
import { divide, multiply, negate, type Rational, rational, squareRoot, times, type Value, valueOf } from "./rational.ts"
import { unitOf } from "./unit.ts"

export interface Quantity {
  readonly value: Value
  readonly unit: string | undefined
}

/** Exponents past this would make numbers of no use as answers. */
const largestExponent = 400
const deepest = 8

/**
 * The number that a normalised text is, with its unit; undefined where any part of it stays unread.
 * Knows integers, thousands separators (comma, or space before three digits), decimals, a/b, proper mixed numbers, e-notation and
 * `* 10^n`, roots of those, and per cent, which is a hundredth unless `ignorePercent`.
 *
 * @example parseQuantity("3 1/4", false) // 13/4
 */
export function parseQuantity(text: string, ignorePercent: boolean): Quantity | undefined {
  const [, sign, body] = /^([-+]?)\s?(.*)$/su.exec(text.replace(/^([-+]?)\s?[$€£¥]\s?/u, "$1"))!
  const read = mixedNumber(body!) ?? term(body!, 0)
  if (read === undefined || read === "improper") return undefined
  const value = sign === "-" ? negate(read.value) : read.value
  const percent = /^\s?%/u.exec(read.rest)
  if (percent !== null && read.rest.slice(percent[0].length).trim() === "")
    return { value: ignorePercent ? value : { ...value, factor: times(value.factor, { numerator: 1n, denominator: 100n }) }, unit: undefined }
  if (read.rest === "") return { value, unit: undefined }
  const unit = unitOf(read.rest)
  return unit === undefined ? undefined : { value, unit }
}

interface Read {
  readonly value: Value
  readonly rest: string
}

/** "3 1/4"; "5 9/2" is no mixed number, and no part of it may be taken for the answer. */
function mixedNumber(text: string): Read | "improper" | undefined {
  const match = /^(\d[\d,]*) \(?(\d+)\)?\/\(?(\d+)\)?(?![\d.])(.*)$/su.exec(text)
  if (match === null) return undefined
  const [, whole, numerator, denominator, rest] = match
  const [n, d] = [BigInt(numerator!), BigInt(denominator!)]
  if (n === 0n || n >= d || !/^(?:\d+|\d{1,3}(?:,\d{3})+)$/.test(whole!)) return "improper"
  const value = rational(BigInt(whole!.replaceAll(",", "")) * d + n, d)
  return value === undefined ? "improper" : { value: valueOf(value), rest: rest! }
}

/** An atom, or one atom over another, times at most one root. */
function term(text: string, depth: number): Read | undefined {
  const top = atom(text, depth)
  if (top === undefined) return undefined
  const bar = /^ ?\/ ?(?=[\d(s.])/u.exec(top.rest)
  if (bar === null) return top
  const bottom = atom(top.rest.slice(bar[0].length), depth)
  const value = bottom === undefined ? undefined : divide(top.value, bottom.value)
  return value === undefined ? undefined : timesRoot({ value, rest: bottom!.rest }, depth)
}

function atom(text: string, depth: number): Read | undefined {
  if (depth > deepest) return undefined
  if (text.startsWith("sqrt(")) return root(text, depth)
  if (text.startsWith("(")) {
    const [inner, rest] = parenthesised(text)
    const value = inner === undefined ? undefined : signedTerm(inner, depth + 1)
    return value === undefined ? undefined : { value, rest }
  }
  const number = literal(text)
  return number === undefined ? undefined : timesRoot(number, depth)
}

function timesRoot(read: Read, depth: number): Read | undefined {
  const gap = /^ ?\*? ?(?=sqrt\()/u.exec(read.rest)
  if (gap === null) return read
  const found = root(read.rest.slice(gap[0].length), depth)
  return found === undefined ? undefined : { value: multiply(read.value, found.value), rest: found.rest }
}

function root(text: string, depth: number): Read | undefined {
  const [inner, rest] = parenthesised(text.slice(4))
  const under = inner === undefined ? undefined : signedTerm(inner, depth + 1)
  const value = under === undefined ? undefined : squareRoot(under)
  return value === undefined ? undefined : { value, rest }
}

/** A whole text as a term with its sign. */
function signedTerm(text: string, depth: number): Value | undefined {
  const [, sign, body] = /^\s?([-+]?)\s?(.*)$/su.exec(text.trim())!
  const read = term(body!, depth)
  if (read === undefined || read.rest.trim() !== "") return undefined
  return sign === "-" ? negate(read.value) : read.value
}

function parenthesised(text: string): [inner: string | undefined, rest: string] {
  let open = 0
  for (let index = 0; index < text.length; index++) {
    if (text[index] === "(") open++
    else if (text[index] === ")" && --open === 0) return [text.slice(1, index), text.slice(index + 1)]
  }
  return [undefined, text]
}

/** Digits with separators, decimals and a power of ten. */
function literal(text: string): Read | undefined {
  const match = /^(\d{1,3}(?:,\d{3})+(?!\d)|\d{1,3}(?: \d{3})+(?!\d)|\d+)?(?:\.(\d*))?/u.exec(text)!
  const [matched, whole = "", decimals = ""] = match
  if (whole === "" && decimals === "") return undefined
  let value: Rational = { numerator: BigInt(whole.replace(/[, ]/g, "") + decimals), denominator: 10n ** BigInt(decimals.length) }
  let rest = text.slice(matched.length)
  const power = /^(?:[eE]([-+]?\d{1,4})|(?: ?\* ?10)?\^\(?([-+]?\d{1,4})\)?)(?![\d.])/u.exec(rest)
  if (power !== null) {
    const tenToThe = power[1] !== undefined || power[0].includes("10")
    // A bare ^ is a power of ten only after the number 10.
    if (!tenToThe && matched !== "10") return undefined
    const exponent = Number(power[1] ?? power[2]) - (tenToThe ? 0 : 1)
    if (Math.abs(exponent) > largestExponent) return undefined
    const scale = 10n ** BigInt(Math.abs(exponent))
    value = times(value, exponent < 0 ? { numerator: 1n, denominator: scale } : { numerator: scale, denominator: 1n })
    rest = rest.slice(power[0].length)
  }
  return { value: valueOf(value), rest }
}
