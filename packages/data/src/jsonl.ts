// JSON Lines, streamed. Lines end at the newline byte only: U+2028 inside a string is text, and a character that two chunks
// share is decoded whole. Bun.JSONL is not used: its `parse` hides an error after the first good line.
import { CohortError, messageOf, toCohortError } from "@cohort/errors"
import { parseExactJson } from "./exact-json.ts"
import type { RawRow } from "./raw-row.ts"

const newline = 0x0a

/**
 * Rows of a JSON Lines stream. Blank lines and a byte order mark are skipped; line numbers count every line, from 1.
 *
 * @param name of the file, for messages
 * @throws CohortError `dataset_invalid` naming the line
 */
export async function* readJsonl(chunks: AsyncIterable<Uint8Array>, name: string, signal?: AbortSignal): AsyncGenerator<RawRow> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
  let line = 0
  for await (const bytes of lines(chunks, name)) {
    if (signal?.aborted) throw toCohortError(signal.reason, "aborted", name)
    line++
    const where = `${name} line ${line}`
    const text = decode(decoder, line === 1 ? withoutMark(bytes) : bytes, where)
    if (text.trim() !== "") yield { value: parse(text, where), where }
  }
}

async function* lines(chunks: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<Uint8Array> {
  let parts: Uint8Array[] = []
  try {
    for await (const chunk of chunks) {
      let at = 0
      for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, at)) {
        parts.push(chunk.subarray(at, end))
        yield join(parts)
        parts = []
        at = end + 1
      }
      if (at < chunk.length) parts.push(chunk.slice(at))
    }
  } catch (error) {
    throw toCohortError(error, "dataset_invalid", name)
  }
  if (parts.length > 0) yield join(parts)
}

function join(parts: readonly Uint8Array[]): Uint8Array {
  const [only] = parts
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts)
}

function withoutMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
}

function decode(decoder: TextDecoder, bytes: Uint8Array, where: string): string {
  try {
    return decoder.decode(bytes)
  } catch (cause) {
    throw new CohortError("dataset_invalid", `${where}: not UTF-8`, { hint: "Save the file as UTF-8.", cause })
  }
}

function parse(text: string, where: string): unknown {
  try {
    return parseExactJson(text)
  } catch (cause) {
    throw new CohortError("dataset_invalid", `${where}: ${messageOf(cause)}; found ${JSON.stringify(text.slice(0, 40))}`, {
      hint: "Each line must hold one whole JSON object. A file that is one JSON document should be named .json.",
      cause,
    })
  }
}
