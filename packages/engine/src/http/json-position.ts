// Where and why a JSON text is wrong, in the words of Python's parser: JSON.parse does not tell the position.

export interface JsonFault {
  /** Index of the first character that cannot be. */
  readonly at: number
  readonly reason: string
}

class Fault extends Error {
  readonly fault: JsonFault
  constructor(at: number, reason: string) {
    super(reason)
    this.fault = { at, reason }
  }
}

/** The first fault of `text`, or undefined when it is JSON. */
export function findJsonFault(text: string): JsonFault | undefined {
  try {
    const end = skipSpace(text, readValue(text, skipSpace(text, 0)))
    return end < text.length ? { at: end, reason: "Extra data" } : undefined
  } catch (error) {
    if (error instanceof Fault) return error.fault
    throw error
  }
}

function skipSpace(text: string, at: number): number {
  let position = at
  while (" \t\n\r".includes(text[position] ?? "x")) position++
  return position
}

const scalar = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)/y

function readValue(text: string, at: number): number {
  const first = text[at]
  if (first === "{") return readMembers(text, at + 1, "}", readMember)
  if (first === "[") return readMembers(text, at + 1, "]", readValue)
  if (first === '"') return readString(text, at)
  scalar.lastIndex = at
  if (!scalar.test(text)) throw new Fault(at, "Expecting value")
  return scalar.lastIndex
}

function readMembers(text: string, start: number, close: string, read: (text: string, at: number) => number): number {
  let at = skipSpace(text, start)
  if (text[at] === close) return at + 1
  for (;;) {
    at = skipSpace(text, read(text, at))
    if (text[at] === close) return at + 1
    if (text[at] !== ",") throw new Fault(at, "Expecting ',' delimiter")
    at = skipSpace(text, at + 1)
  }
}

function readMember(text: string, at: number): number {
  if (text[at] !== '"') throw new Fault(at, "Expecting property name enclosed in double quotes")
  const colon = skipSpace(text, readString(text, at))
  if (text[colon] !== ":") throw new Fault(colon, "Expecting ':' delimiter")
  return readValue(text, skipSpace(text, colon + 1))
}

function readString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const character = text[at]!
    if (character === '"') return at + 1
    if (character < " ") throw new Fault(at, "Invalid control character at")
    if (character !== "\\") continue
    const escape = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y
    escape.lastIndex = at
    if (!escape.test(text)) throw new Fault(at, "Invalid \\escape")
    at = escape.lastIndex - 1
  }
  throw new Fault(start, "Unterminated string starting at")
}
