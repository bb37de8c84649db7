// Finds a key that stands twice at the top of a JSON object. JSON.parse keeps the last one and says nothing.

const quote = 0x22
const backslash = 0x5c

/**
 * The first key of the outermost object in `json` that stands twice, or undefined. `json` must be valid JSON.
 *
 * @example repeatedKey('{"a":1,"a":2}') // "a"
 */
export function repeatedKey(json: string): string | undefined {
  const seen = new Set<string>()
  let depth = 0
  let expectsKey = false
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at)
    if (code === quote) {
      const end = stringEnd(json, at)
      if (depth === 1 && expectsKey) {
        const key = JSON.parse(json.slice(at, end + 1)) as string
        if (seen.has(key)) return key
        seen.add(key)
        expectsKey = false
      }
      at = end
    } else if (code === 0x7b || code === 0x5b) {
      depth++
      expectsKey = depth === 1
    } else if (code === 0x7d || code === 0x5d) {
      depth--
    } else if (code === 0x2c && depth === 1) {
      expectsKey = true
    }
  }
  return undefined
}

// Index of the quote that closes the string opened at `open`.
function stringEnd(json: string, open: number): number {
  let at = open + 1
  while (at < json.length && json.charCodeAt(at) !== quote) at += json.charCodeAt(at) === backslash ? 2 : 1
  return at
}
