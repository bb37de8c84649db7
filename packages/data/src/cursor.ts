// Hands out prompt occurrences: 0, 1, 2, ... Which row an occurrence is follows from its number, the seed and the size alone,
// so a resumed run sees the rows it would have seen. What was admitted and not finished is given back and comes again once.
import { CohortError } from "@cohort/errors"
import type { PromptRow, RowSource } from "@cohort/env"
import { permutation } from "./permutation.ts"

export interface CursorOptions {
  readonly seed: number
  /** A new order each epoch; otherwise the order of the source. */
  readonly shuffle: boolean
}

export interface Occurrence {
  /** Number of the occurrence in the run. */
  readonly occurrence: number
  readonly epoch: number
  /** Row of the source. */
  readonly index: number
  readonly row: PromptRow
}

/** What a checkpoint keeps; JSON. */
export interface CursorState {
  readonly seed: number
  readonly shuffle: boolean
  readonly size: number
  /** The occurrence that comes next when none was given back. */
  readonly next: number
  /** Occurrences given back and not handed out again, ascending. */
  readonly returned: readonly number[]
}

export interface PromptCursor {
  /** Given-back occurrences first, lowest number first. Never ends: epochs follow each other. */
  next(): Occurrence
  /** Which row occurrence `occurrence` is, without handing it out. */
  at(occurrence: number): Occurrence
  /**
   * Returns an occurrence that was handed out and will not be finished.
   *
   * @throws CohortError `internal` for one that was not handed out, or is already back
   */
  giveBack(occurrence: number): void
  state(): CursorState
}

/**
 * A cursor at the beginning of `source`.
 *
 * @example
 * const cursor = createCursor(source, { seed: 42, shuffle: true })
 * const { occurrence, row } = cursor.next()
 */
export function createCursor(source: RowSource, { seed, shuffle }: CursorOptions): PromptCursor {
  if (!Number.isSafeInteger(seed) || seed < 0) throw new CohortError("config_invalid", `seed ${seed} must be a whole number from 0 on`)
  return cursorFrom(source, { seed, shuffle, size: source.size, next: 0, returned: [] })
}

/**
 * A cursor where a checkpoint left it.
 *
 * @param expected the run's settings: the state must be of the same seed and order
 * @throws CohortError `checkpoint_invalid` for a state of another size, seed or order, or no state at all
 */
export function restoreCursor(source: RowSource, state: CursorState, expected: Partial<CursorOptions> = {}): PromptCursor {
  checkState(state)
  const differences = [
    state.size !== source.size && `dataset ${source.name} has ${source.size} rows, the checkpoint was made with ${state.size}`,
    expected.seed !== undefined && state.seed !== expected.seed && `seed is ${expected.seed}, the checkpoint has ${state.seed}`,
    expected.shuffle !== undefined && state.shuffle !== expected.shuffle && `shuffle is ${expected.shuffle}, the checkpoint has ${state.shuffle}`,
  ].filter((difference) => difference !== false)
  if (differences.length > 0) {
    throw new CohortError("checkpoint_invalid", differences.join("; "), {
      hint: "Resume with the dataset, seed and order of the run that made the checkpoint, or start a new run.",
      details: { size: source.size, stateSize: state.size, seed: expected.seed ?? state.seed, stateSeed: state.seed },
    })
  }
  return cursorFrom(source, state)
}

function cursorFrom(source: RowSource, start: CursorState): PromptCursor {
  const { seed, shuffle, size } = start
  if (size < 1) throw new CohortError("dataset_invalid", `dataset ${source.name} has no rows`)
  const returned = [...start.returned]
  let next = start.next
  let order: { readonly epoch: number; readonly indexAt: (position: number) => number } | undefined

  const at = (occurrence: number): Occurrence => {
    const epoch = Math.floor(occurrence / size)
    const position = occurrence % size
    if (order?.epoch !== epoch) order = { epoch, indexAt: shuffle ? permutation(size, seed, epoch) : (place) => place }
    const index = order.indexAt(position)
    return { occurrence, epoch, index, row: source.at(index) }
  }
  return {
    at,
    next: () => at(returned.shift() ?? next++),
    giveBack(occurrence) {
      if (!isCount(occurrence) || occurrence >= next) {
        throw new CohortError("internal", `occurrence ${occurrence} was given back, but only those below ${next} were handed out`)
      }
      if (returned.includes(occurrence)) throw new CohortError("internal", `occurrence ${occurrence} was given back twice`)
      const place = returned.findIndex((other) => other > occurrence)
      returned.splice(place < 0 ? returned.length : place, 0, occurrence)
    },
    state: () => ({ seed, shuffle, size, next, returned: [...returned] }),
  }
}

// A state comes from a file: its type is a claim until it is checked.
function checkState(state: CursorState): void {
  const sound =
    typeof state === "object" &&
    state !== null &&
    isCount(state.seed) &&
    typeof state.shuffle === "boolean" &&
    isCount(state.size) &&
    isCount(state.next) &&
    Array.isArray(state.returned) &&
    state.returned.every((item, i) => isCount(item) && item < state.next && item > (state.returned[i - 1] ?? -1))
  if (!sound) {
    throw new CohortError("checkpoint_invalid", `the prompt cursor of the checkpoint is ${JSON.stringify(state)?.slice(0, 120)}`, {
      hint: "Expected seed, shuffle, size, next and returned, the last ascending and below next.",
    })
  }
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0
}
