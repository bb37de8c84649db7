// Which ids begin, end and pad a sequence, from the places where model folders say so.
import { CohortError } from "@cohort/errors"
import type { TokenizerFiles } from "./files.ts"

export interface SpecialTokens {
  readonly bosTokenId: number | undefined
  /** Every id that ends a generation; empty when the folder names none. */
  readonly eosTokenIds: readonly number[]
  /** Padding is masked wherever it stands; a folder that names none gets the first end id, or 0. */
  readonly padTokenId: number
  /** Token texts by their names in tokenizer_config.json (`bos_token`, ...), as templates read them. */
  readonly texts: Readonly<Record<string, string>>
}

/**
 * Reads special tokens. End ids are those of generation_config.json (a number or a list) with the tokenizer's own
 * `eos_token`: models often have several.
 *
 * @throws CohortError `tokenizer_invalid` for an id or a token outside the vocabulary
 */
export function specialTokens(files: TokenizerFiles, tokenToId: (token: string) => number | undefined, vocabSize: number): SpecialTokens {
  const texts: Record<string, string> = {}
  for (const [key, value] of Object.entries(files.config)) {
    const text = key.endsWith("_token") ? tokenText(value) : undefined
    if (text !== undefined) texts[key] = text
  }
  const idOf = (key: string): number | undefined => {
    const text = texts[key]
    if (text === undefined) return undefined
    const id = tokenToId(text)
    if (id === undefined) fail(files.source, `${key} ${JSON.stringify(text)} is not in the vocabulary`)
    return id
  }
  const listed = idList(files.generation.eos_token_id, "eos_token_id", files.source, vocabSize)
  const own = idOf("eos_token")
  const eosTokenIds = [...new Set(own === undefined ? listed : [...listed, own])]
  const [padListed] = idList(files.generation.pad_token_id, "pad_token_id", files.source, vocabSize)
  return {
    bosTokenId: idOf("bos_token"),
    eosTokenIds,
    padTokenId: idOf("pad_token") ?? padListed ?? eosTokenIds[0] ?? 0,
    texts,
  }
}

// A token stands as text or as an object with `content`.
function tokenText(value: unknown): string | undefined {
  const content: unknown = typeof value === "object" && value !== null ? (value as { content?: unknown }).content : value
  return typeof content === "string" ? content : undefined
}

function idList(value: unknown, key: string, source: string, vocabSize: number): number[] {
  if (value === undefined || value === null) return []
  const ids: unknown[] = Array.isArray(value) ? value : [value]
  return ids.map((id) => {
    if (typeof id !== "number" || !Number.isInteger(id) || id >= vocabSize) {
      fail(source, `${key} ${JSON.stringify(id)} is no id below the vocabulary size ${vocabSize}`)
    }
    // -1 stands for "none" in some configs.
    return id
  }).filter((id) => id >= 0)
}

function fail(source: string, message: string): never {
  throw new CohortError("tokenizer_invalid", `${source}: ${message}`, {
    hint: "tokenizer.json and the config files must be of the same model.",
    details: { source },
  })
}
