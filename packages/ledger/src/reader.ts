// A ledger to read: while its run writes it, after the run, or after the run was killed.
import type { Database } from "bun:sqlite"
import { type Audit, auditAccount } from "./audit.ts"
import type { EventFilter, LedgerEvent, MetricPoint } from "./event.ts"
import { accountOccurrences, occurrenceKinds, type OccurrenceAccount } from "./occurrences.ts"
import { readEvents, readMetricNames, readMetrics, readMetricSeries } from "./queries.ts"
import { openReader, typed } from "./sqlite.ts"
import { type LedgerSummary, summarize, summaryKinds } from "./summary.ts"

/** Reads see what has been flushed. */
export interface LedgerReader {
  readonly path: string
  /** Matching events after `afterId`, ascending by id, at most `limit` (1000). */
  events(filter?: EventFilter, afterId?: number, limit?: number): readonly LedgerEvent[]
  metricSeries(name: string, fromStep?: number): readonly MetricPoint[]
  metricsAt(step: number): Readonly<Record<string, number | null>>
  metricNames(): readonly string[]
  /** Id of the newest event; 0 when there is none. */
  lastEventId(): number
  occurrences(): OccurrenceAccount
  /** `ended`: the run is over, so nothing may be open. */
  audit(options?: { readonly ended?: boolean }): Audit
  summary(): LedgerSummary
  close(): void
}

/**
 * Opens a ledger for reading; its writer may be at work.
 *
 * @throws CohortError `file_invalid` for a missing file, another kind of file or one of a newer program.
 * @example
 * using ledger = openLedgerReader("runs/a/ledger.db")
 * ledger.audit({ ended: true }).violations
 */
export function openLedgerReader(path: string): LedgerReader & Disposable {
  const db = openReader(path)
  const close = (): void => db.close()
  return { ...ledgerQueries(db, path, () => undefined), path, close, [Symbol.dispose]: close }
}

/** The queries over one connection; `before` runs ahead of each. */
export function ledgerQueries(db: Database, path: string, before: () => void): Omit<LedgerReader, "path" | "close"> {
  const read = <T>(query: () => T): T => {
    before()
    return typed(path, query)
  }
  const all = (kinds: readonly string[]) => readEvents(db, { kinds }, 0, -1)
  return {
    events: (filter = {}, afterId = 0, limit = 1000) => read(() => [...readEvents(db, filter, afterId, limit)]),
    metricSeries: (name, fromStep = 0) => read(() => readMetricSeries(db, name, fromStep)),
    metricsAt: (step) => read(() => readMetrics(db, step)),
    metricNames: () => read(() => readMetricNames(db)),
    lastEventId: () => read(() => db.query<{ id: number | null }, []>("SELECT max(id) AS id FROM events").get()?.id ?? 0),
    occurrences: () => read(() => accountOccurrences(all(occurrenceKinds))),
    audit: ({ ended = false } = {}) => read(() => auditAccount(accountOccurrences(all(occurrenceKinds)), ended)),
    summary: () => read(() => summarize(all(summaryKinds), db.query<{ n: number }, []>("SELECT count(*) AS n FROM events").get()?.n ?? 0)),
  }
}
