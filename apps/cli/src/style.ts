// Terminal styles, and text cut to a width.
import { styleText } from "node:util"

export type StyleName = "bold" | "dim" | "green" | "red" | "yellow" | "cyan"

/** Gives text a style, or leaves it as it is. */
export type Paint = (style: StyleName, text: string) => string

export function painter(color: boolean): Paint {
  return (style, text) => (color ? styleText(style, text, { validateStream: false }) : text)
}

/** At most `width` characters wide on a terminal, the end replaced by an ellipsis where it is longer. Takes no styled text. */
export function fit(text: string, width: number): string {
  if (Bun.stringWidth(text) <= width) return text
  let kept = ""
  for (const character of text) {
    if (Bun.stringWidth(kept + character) > width - 1) break
    kept += character
  }
  return `${kept}…`
}

/** Padded with spaces at the end to a width on the terminal. */
export function pad(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - Bun.stringWidth(text)))
}

/** Text of a model on one line: line ends and other control characters written as escapes. */
export function oneLine(text: string): string {
  // oxlint-disable-next-line no-control-regex -- they are what is looked for
  return text.replace(/[\u0000-\u001F\u007F-\u009F\u2028\u2029]/g, (character) => JSON.stringify(character).slice(1, -1).replace(/^[\u007F-\u009F\u2028\u2029]$/, (odd) => `\\u${odd.charCodeAt(0).toString(16).padStart(4, "0")}`))
}
