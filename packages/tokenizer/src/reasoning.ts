// Splits what a model thought from what it said.

const pairs = [
  ["<think>", "</think>"],
  ["[THINK]", "[/THINK]"],
] as const

export interface SplitReasoning {
  readonly reasoning: string | undefined
  /** The text without its reasoning. */
  readonly rest: string
  /** False when the text ended inside the reasoning. */
  readonly closed: boolean
}

/**
 * Takes reasoning blocks out of `text`. A closing marker without an opening one ends reasoning that the prompt began.
 *
 * @param open the prompt already opened the block, so that a text without any marker is all reasoning
 * @example splitReasoning("<think>2 and 2</think>4") // { reasoning: "2 and 2", rest: "4", closed: true }
 */
export function splitReasoning(text: string, open = false): SplitReasoning {
  const [opening, closing] = pairs.find((pair) => pair.some((marker) => text.includes(marker))) ?? pairs[0]
  const thoughts: string[] = []
  let rest = ""
  let closed = true
  let at = 0
  const firstClosing = text.indexOf(closing)
  const firstOpening = text.indexOf(opening)
  let inside = firstClosing >= 0 ? firstOpening < 0 || firstClosing < firstOpening : open && firstOpening < 0
  while (at < text.length) {
    const end = text.indexOf(inside ? closing : opening, at)
    const part = text.slice(at, end < 0 ? text.length : end)
    if (inside) thoughts.push(part.trim())
    else rest += part
    if (end < 0) {
      closed = !inside
      break
    }
    at = end + (inside ? closing : opening).length
    inside = !inside
    closed = !inside
  }
  if (thoughts.length === 0 && closed) return { reasoning: undefined, rest, closed }
  return { reasoning: thoughts.filter((thought) => thought !== "").join("\n"), rest: rest.trim(), closed }
}
