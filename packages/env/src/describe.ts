// A short, safe rendering of any value for error messages: never throws, never longer than a line.
const longest = 80

/**
 * Names a value and its type for a person.
 *
 * @example describeValue("7") // '"7" (string)'
 */
export function describeValue(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  if (typeof value === "number") return String(value)
  if (typeof value === "string") return `${JSON.stringify(shorten(value))} (string)`
  if (typeof value === "object" || typeof value === "function") return describeObject(value)
  return `${String(value)} (${typeof value})`
}

/** Cuts text to one line of at most 80 characters, and says where it cut. */
export function shorten(text: string): string {
  return text.length <= longest ? text : `${text.slice(0, longest)}…`
}

function describeObject(value: object): string {
  if (typeof value === "function") return "a function"
  try {
    const text = JSON.stringify(value)
    return `${shorten(text ?? "an object")} (${Array.isArray(value) ? "array" : "object"})`
  } catch (cause) {
    // Cycles, bigints and throwing getters have no JSON.
    return `an object without JSON (${cause instanceof Error ? cause.name : typeof cause})`
  }
}
