// Proves that a run used every prompt exactly once, or lists what contradicts it.
import type { OccurrenceAccount, OccurrenceState, Violation } from "./occurrences.ts"

export interface Audit {
  /** True when there is no violation. */
  readonly ok: boolean
  readonly violations: readonly Violation[]
  readonly counts: Readonly<Record<OccurrenceState, number>>
  /** Numbers below the highest admitted one that were never admitted. */
  readonly missing: readonly number[]
}

/**
 * Audits the account of a run.
 *
 * @param ended The run is over: what is still open or lost and numbers that were left out are violations too. While it runs they are its work.
 */
export function auditAccount(account: OccurrenceAccount, ended: boolean): Audit {
  const counts = { open: 0, trained: 0, dropped: 0, givenBack: 0, lost: 0 }
  for (const { state } of account.occurrences) counts[state]++
  const missing = missingNumbers(account)
  const violations = [...account.violations]
  if (ended) {
    for (const { state, occurrence, lastEventId } of account.occurrences)
      if (state === "open" || state === "lost") violations.push({ occurrence, eventId: lastEventId, message: `occurrence ${occurrence} is ${state} although the run ended` })
    for (const occurrence of missing) violations.push({ occurrence, eventId: 0, message: `occurrence ${occurrence} was never admitted` })
  }
  return { ok: violations.length === 0, violations, counts, missing }
}

function missingNumbers({ occurrences }: OccurrenceAccount): readonly number[] {
  const missing: number[] = []
  let expected = 0
  for (const { occurrence } of occurrences) {
    for (; expected < occurrence; expected++) missing.push(expected)
    expected = occurrence + 1
  }
  return missing
}
