// Where a resumed run takes its prompts up again: the ledger says what became of every occurrence, the checkpoint says which dataset and order.
import { type CursorOptions, type CursorState, type PromptCursor, restoreCursor } from "@cohort/data"
import type { RowSource } from "@cohort/env"
import type { OccurrenceAccount } from "@cohort/ledger"

/**
 * The cursor of a resumed run: it goes on after everything that was ever admitted, and first hands out again what did not end: lost at
 * the crash, given back, or handed out before the checkpoint and never admitted.
 *
 * @param account of the ledger after its `run.resumed` event, so that what was trained after the checkpoint counts as lost
 * @throws CohortError `checkpoint_invalid` when dataset, seed or order are not those of the checkpoint
 * @example
 * const cursor = resumeCursor(source, checkpoint.cursor, ledger.occurrences(), { seed: 0, shuffle: true })
 */
export function resumeCursor(source: RowSource, checkpoint: CursorState, account: OccurrenceAccount, settings: CursorOptions): PromptCursor {
  const known = restoreCursor(source, checkpoint, settings)
  // A ledger without a single admission tells nothing: the checkpoint is all there is.
  if (account.occurrences.length === 0) return known
  const states = new Map(account.occurrences.map(({ occurrence, state }) => [occurrence, state]))
  // The checkpoint was written after the ledger: an occurrence that only the checkpoint knows was handed out and never admitted.
  const next = Math.max(...states.keys()) + 1
  const returned = Array.from({ length: next }, (_, occurrence) => occurrence).filter((occurrence) => {
    const state = states.get(occurrence)
    return state === undefined || state === "lost" || state === "givenBack"
  })
  return restoreCursor(source, { ...checkpoint, next, returned }, settings)
}

/**
 * What a crash lost and the resumed run, now over, did not come to: each of these is to be recorded as given back.
 *
 * @param cursor after the worker has stopped
 */
export function lostAndWaiting(cursor: PromptCursor, account: OccurrenceAccount): readonly number[] {
  const lost = new Set(account.occurrences.filter(({ state }) => state === "lost").map(({ occurrence }) => occurrence))
  return cursor.state().returned.filter((occurrence) => lost.has(occurrence))
}
