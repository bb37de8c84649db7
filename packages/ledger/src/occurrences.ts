// The exactly-once account: what became of every prompt occurrence, and every event that contradicts it. Pure over events.
import { kinds, type LedgerEvent } from "./event.ts"

export type OccurrenceState = "open" | "trained" | "dropped" | "givenBack" | "lost"

/** Where one prompt occurrence stands. */
export interface OccurrenceRecord {
  readonly occurrence: number
  /** `lost` was open, or trained after the checkpoint, when the run resumed: it is admitted again. */
  readonly state: OccurrenceState
  readonly admissions: number
  readonly lastEventId: number
  /** Of a drop. */
  readonly reason?: string
  /** Optimizer step that trained it. */
  readonly step?: number
  /** Version at a drop. */
  readonly version?: number
}

export interface Violation {
  readonly occurrence: number
  readonly eventId: number
  readonly message: string
}

export interface OccurrenceAccount {
  readonly occurrences: readonly OccurrenceRecord[]
  readonly violations: readonly Violation[]
}

/** Events that the account reads. */
export const occurrenceKinds: readonly string[] = [kinds.admitted, kinds.trained, kinds.dropped, kinds.givenBack, kinds.resumed]

/**
 * Follows every occurrence: admitted, then trained, dropped or given back, and admitted again only after it was given back or lost
 * at a resume. What does not fit is a violation; the later event still counts.
 *
 * @example
 * accountOccurrences(ledger.events({ kinds: occurrenceKinds })).violations // []
 */
export function accountOccurrences(events: Iterable<LedgerEvent>): OccurrenceAccount {
  const records = new Map<number, OccurrenceRecord>()
  const violations: Violation[] = []
  let resumedAt = Number.POSITIVE_INFINITY
  for (const event of events) {
    if (event.kind === kinds.resumed) {
      resumedAt = event.step ?? 0
      for (const [occurrence, record] of records) records.set(occurrence, resumeRecord(record, resumedAt))
      continue
    }
    if (event.occurrence === undefined) continue
    const before = records.get(event.occurrence)
    const contradiction = contradictionOf(before, event, resumedAt)
    if (contradiction !== null)
      violations.push({ occurrence: event.occurrence, eventId: event.id, message: `occurrence ${event.occurrence} ${contradiction}` })
    const next = nextRecord(before, event)
    if (next !== undefined) records.set(event.occurrence, next)
  }
  return { occurrences: [...records.values()].toSorted((a, b) => a.occurrence - b.occurrence), violations }
}

function contradictionOf(before: OccurrenceRecord | undefined, event: LedgerEvent, resumedAt: number): string | null {
  const told = before === undefined ? "was never admitted" : `is ${before.state} since event ${before.lastEventId}`
  // What a crash lost and the resumed run did not come to is given back when that run ends.
  const mayEnd = before?.state === "open" || (before?.state === "lost" && event.kind === kinds.givenBack)
  if (event.kind !== kinds.admitted) return mayEnd ? null : `was ended by ${event.kind} but ${told}`
  if (before === undefined || before.state === "givenBack" || before.state === "lost") return null
  // A drop after the checkpoint is part of the time that a resume undid; the caller may repeat it or leave it.
  if (before.state === "dropped" && (before.version ?? 0) >= resumedAt) return null
  return `was admitted again but ${told}`
}

function nextRecord(before: OccurrenceRecord | undefined, event: LedgerEvent): OccurrenceRecord | undefined {
  const base = { occurrence: event.occurrence!, admissions: before?.admissions ?? 0, lastEventId: event.id }
  if (event.kind === kinds.admitted) return { ...base, state: "open", admissions: base.admissions + 1 }
  if (event.kind === kinds.givenBack) return { ...base, state: "givenBack" }
  if (event.kind === kinds.trained) return { ...base, state: "trained", ...(event.step === undefined ? {} : { step: event.step }) }
  if (event.kind !== kinds.dropped) return before
  const version = event.version === undefined ? {} : { version: event.version }
  return { ...base, state: "dropped", reason: event.reason ?? "unknown", ...version }
}

function resumeRecord(record: OccurrenceRecord, step: number): OccurrenceRecord {
  const undone = record.state === "open" || (record.state === "trained" && (record.step ?? Number.POSITIVE_INFINITY) > step)
  return undone ? { occurrence: record.occurrence, admissions: record.admissions, lastEventId: record.lastEventId, state: "lost" } : record
}
