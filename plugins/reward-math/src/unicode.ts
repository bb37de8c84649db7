// Unicode variants of plain characters: full-width digits, minus signs, vulgar fractions, superscripts, invisible characters.

const superscripts: Readonly<Record<string, string>> = { "⁰": "0", "¹": "1", "²": "2", "³": "3", "⁴": "4", "⁵": "5", "⁶": "6", "⁷": "7", "⁸": "8", "⁹": "9", "⁻": "-" }

/**
 * Text with plain digits, minus signs and fraction bars. Superscripts become `^` and digits before NFKC would make 5² read 52.
 *
 * @example foldUnicode("−４２½") // "-42 1/2"
 */
export function foldUnicode(text: string): string {
  if (!/[^ -~\n\r\t]/u.test(text)) return text
  return text
    .replace(/[⁰¹²³⁴-⁹⁻]+/gu, (run) => `^${Array.from(run, (char) => superscripts[char] ?? char).join("")}`)
    .replace(/[¼-¾⅐-⅞]/gu, (char) => ` ${char.normalize("NFKC")}`)
    .normalize("NFKC")
    .replace(/[\u2212\u2010-\u2013\ufe63\uff0d]/gu, "-")
    .replace(/[\u2044\u2215]/gu, "/")
    .replace(/[\u00d7\u00b7\u22c5]/gu, "*")
    .replace(/\u00f7/gu, "/")
}

/** Cuts white space and invisible characters at both ends. Inner ones stay: they may be there to split a number. */
export function trimInvisible(text: string): string {
  const edge = /[\s\u200b-\u200f\u2060\ufeff]/u
  let start = 0
  let end = text.length
  while (start < end && edge.test(text[start]!)) start++
  while (end > start && edge.test(text[end - 1]!)) end--
  return text.slice(start, end)
}
