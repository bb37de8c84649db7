// Row sources: from an array, from a function, and a part held out for evaluation.
import { CohortError } from "@cohort/errors"
import type { PromptRow, RowSource } from "@cohort/env"
import { permutation } from "./permutation.ts"

/** A source over rows that are in memory. */
export function arraySource(name: string, rows: readonly PromptRow[]): RowSource {
  return proceduralSource(name, rows.length, (index) => rows[index]!)
}

/**
 * A source whose rows are made when asked for. `make` must be pure: the same index gives the same row.
 *
 * @throws CohortError `internal` from `at` for an index outside the source
 * @example proceduralSource("sums", 100, (i) => ({ id: `${i}`, prompt: `${i}+1=` }))
 */
export function proceduralSource(name: string, size: number, make: (index: number) => PromptRow): RowSource {
  return {
    name,
    size,
    at(index) {
      if (!Number.isInteger(index) || index < 0 || index >= size) throw new CohortError("internal", `${name} has ${size} rows, row ${index} was asked for`)
      return make(index)
    },
  }
}

/**
 * Splits a source into what is trained on and what is held out: `rows` rows chosen by `seed`, the same each time.
 *
 * @throws CohortError `config_invalid` when nothing would be left to train on
 */
export function holdOut(source: RowSource, { rows, seed }: { readonly rows: number; readonly seed: number }): { train: RowSource; heldOut: RowSource } {
  if (!Number.isInteger(rows) || rows < 0 || rows >= source.size) {
    throw new CohortError("config_invalid", `cannot hold out ${rows} of the ${source.size} rows of ${source.name}`, {
      hint: `Hold out 0 to ${Math.max(0, source.size - 1)} rows.`,
    })
  }
  const order = permutation(source.size, seed, 0)
  return {
    train: proceduralSource(`${source.name} (train)`, source.size - rows, (index) => source.at(order(rows + index))),
    heldOut: proceduralSource(`${source.name} (held out)`, rows, (index) => source.at(order(index))),
  }
}
