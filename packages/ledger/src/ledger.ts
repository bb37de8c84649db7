// The writer of a run's ledger: events gather in memory for a moment and are written in one transaction. What cannot be written is
// never dropped in silence: the write fails with a typed error, stays pending and is tried again with the next one.
import { CohortError, isCohortError } from "@cohort/errors"
import type { LedgerEventInput } from "./event.ts"
import { ledgerQueries, type LedgerReader } from "./reader.ts"
import { openWriter, typed } from "./sqlite.ts"

export interface LedgerOptions {
  /** Milliseconds since the epoch; stamps metrics. */
  readonly now: () => number
  /** Events that may wait in memory. */
  readonly maxPending?: number
  /** How long an event may wait in memory. */
  readonly flushAfterMs?: number
  /** Upper bound of the file's size. */
  readonly maxBytes?: number
  /** Calls `run` once after `ms`; returns how to cancel it. Default: a timer that does not keep the process alive. */
  readonly schedule?: (run: () => void, ms: number) => () => void
}

export interface Ledger extends LedgerReader, Disposable {
  /**
   * Adds an event.
   *
   * @throws CohortError `disk_full` and others when the events before it cannot be written; this one was then not taken.
   */
  append(event: LedgerEventInput): void
  /** Sets metrics of a step; a step that is trained again after a resume overwrites. Values that are not finite are stored as null. */
  metrics(step: number, values: Readonly<Record<string, number>>): void
  /** Writes what is pending. @throws CohortError as `append`; nothing is lost then. */
  flush(): void
  /** Events and metric records that wait in memory. */
  readonly pending: number
  /** Why the last write failed; undefined once one succeeded. Reads go on meanwhile over what was written. */
  readonly failure: CohortError | undefined
}

type Pending =
  | { readonly kind: "event"; readonly event: LedgerEventInput; readonly data: string | null }
  | { readonly kind: "metrics"; readonly step: number; readonly values: Readonly<Record<string, number>>; readonly atMs: number }

const insertEvent = `INSERT INTO events (at_ms, kind, step, version, group_id, occurrence, rollout_id, reason, data)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
const upsertMetric = "INSERT INTO metrics (name, step, value, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value, at_ms = excluded.at_ms"

/**
 * Opens the ledger of a run for its one writer, making the file when there is none.
 *
 * A full disk stops the run rather than its record: `append` throws until a write succeeds again, and reads keep working.
 *
 * @throws CohortError `file_invalid` when another process writes it, or it is no ledger; `disk_full`.
 * @example
 * using ledger = openLedger("runs/a/ledger.db", { now: Date.now })
 * ledger.append({ kind: "group.admitted", atMs: Date.now(), occurrence: 0, groupId: "g0" })
 */
export function openLedger(path: string, options: LedgerOptions): Ledger {
  const { now, maxPending = 256, flushAfterMs = 500, schedule = scheduleTimer } = options
  const { db, close: closeDatabase } = openWriter(path, options.maxBytes)
  const event = db.prepare(insertEvent)
  const metric = db.prepare(upsertMetric)
  let pending: Pending[] = []
  let failure: CohortError | undefined
  let cancelTimer: (() => void) | undefined
  let closed = false

  const write = db.transaction((batch: readonly Pending[]) => {
    for (const item of batch) {
      if (item.kind === "metrics") {
        for (const [name, value] of Object.entries(item.values)) metric.run(name, item.step, Number.isFinite(value) ? value : null, item.atMs)
        continue
      }
      const { atMs, kind, step, version, groupId, occurrence, rolloutId, reason } = item.event
      event.run(atMs, kind, step ?? null, version ?? null, groupId ?? null, occurrence ?? null, rolloutId ?? null, reason ?? null, item.data)
    }
  })

  const flush = (): void => {
    refuseClosed()
    cancelTimer?.()
    cancelTimer = undefined
    if (pending.length === 0) return
    try {
      typed(path, () => write.immediate(pending))
      pending = []
      failure = undefined
    } catch (error) {
      failure = isCohortError(error) ? error : new CohortError("internal", `${path} could not be written`, { cause: error })
      throw failure
    }
  }

  /** A timer has no caller to tell: the failure waits for the next append. */
  const flushFromTimer = (): void => {
    try {
      flush()
    } catch (error) {
      if (failure === undefined) throw error
    }
  }

  const add = (item: Pending): void => {
    refuseClosed()
    if (failure !== undefined || pending.length >= maxPending) flush()
    pending.push(item)
    if (pending.length < maxPending) {
      cancelTimer ??= schedule(flushFromTimer, flushAfterMs)
      return
    }
    try {
      flush()
    } catch (error) {
      pending.pop()
      throw error
    }
  }

  const refuseClosed = (): void => {
    if (closed) throw new CohortError("internal", `${path}: the ledger is closed`)
  }

  const close = (): void => {
    if (closed) return
    try {
      flush()
    } finally {
      closed = true
      cancelTimer?.()
      event.finalize()
      metric.finalize()
      typed(path, closeDatabase)
    }
  }

  return {
    // A failed write must not take the reads with it: they show what was written.
    ...ledgerQueries(db, path, () => (failure === undefined ? flush() : refuseClosed())),
    path,
    append: (input) => add({ kind: "event", event: input, data: input.data === undefined ? null : JSON.stringify(input.data) }),
    metrics: (step, values) => add({ kind: "metrics", step, values: { ...values }, atMs: now() }),
    flush,
    close,
    [Symbol.dispose]: close,
    get pending() {
      return pending.length
    },
    get failure() {
      return failure
    },
  }
}

function scheduleTimer(run: () => void, ms: number): () => void {
  const timer = setTimeout(run, ms)
  timer.unref()
  return () => clearTimeout(timer)
}
