// Rows of token ids that show how an addition is answered: prompt, answer, end token, padding.
import type { Tokenizer } from "@cohort/tokenizer"

/** A prompt and the text that should follow it. */
export interface Exercise {
  readonly prompt: string
  readonly answer: string
}

/** Rows of one length L, flattened; `trained` is 1 where the next token belongs to the answer or ends it. */
export interface Demonstrations {
  readonly rows: number
  readonly length: number
  readonly ids_BL: Int32Array
  readonly trained_BL: Float32Array
}

/** Tokens of the longest row: `99+99=`, `198`, end. */
export const rowLength = 10

/**
 * Encodes exercises into rows.
 * @throws RangeError for an exercise longer than a row
 */
export function demonstrate(tokenizer: Tokenizer, exercises: readonly Exercise[]): Demonstrations {
  const ids_BL = new Int32Array(exercises.length * rowLength).fill(tokenizer.padTokenId)
  const trained_BL = new Float32Array(exercises.length * rowLength)
  const end = tokenizer.eosTokenIds[0]!
  exercises.forEach(({ prompt, answer }, row) => {
    const promptIds = tokenizer.encodePrompt(prompt)
    const ids = [...promptIds, ...tokenizer.encode(answer), end]
    if (ids.length > rowLength) throw new RangeError(`${prompt}${answer} takes ${ids.length} tokens, a row has ${rowLength}`)
    ids_BL.set(ids, row * rowLength)
    trained_BL.fill(1, row * rowLength + promptIds.length - 1, row * rowLength + ids.length - 1)
  })
  return { rows: exercises.length, length: rowLength, ids_BL, trained_BL }
}
