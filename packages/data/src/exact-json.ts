// JSON.parse that loses no digits: a whole number that a double cannot hold becomes the text of its digits, and one that a
// double cannot reach at all (1e400) is refused.

const suspicious = /\d{16}|\d[eE]/
const wholeNumber = /^-?\d+$/

/**
 * Parses JSON. Whole numbers beyond 2^53 - 1 come back as strings of their digits.
 *
 * @throws SyntaxError for text that is no JSON; RangeError for a number beyond the double range
 * @example parseExactJson('{"answer":9007199254740995}') // { answer: "9007199254740995" }
 */
export function parseExactJson(text: string): unknown {
  // The reviver costs several times the parse itself, so it runs only where a long number can stand.
  return suspicious.test(text) ? (JSON.parse(text, exactNumber as (key: string, value: unknown) => unknown) as unknown) : (JSON.parse(text) as unknown)
}

// The third argument is ECMAScript's JSON.parse source text access.
function exactNumber(_key: string, value: unknown, context: { readonly source?: string }): unknown {
  if (typeof value !== "number") return value
  if (!Number.isFinite(value)) throw new RangeError(`the number ${context.source ?? value} is beyond the double range`)
  const { source } = context
  return source !== undefined && !Number.isSafeInteger(value) && wholeNumber.test(source) ? source : value
}
