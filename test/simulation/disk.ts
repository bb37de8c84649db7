// What survives the death of the run's process: the flushed part of the ledger and the last whole checkpoint.
import { accountOccurrences, type Audit, kinds, type LedgerEvent, type LedgerEventInput, type OccurrenceAccount, summarize, type LedgerSummary } from "@cohort/ledger"
import type { CursorState } from "@cohort/data"
import type { Clock } from "@cohort/rollout"

export interface SimulatedCheckpoint {
  readonly step: number
  readonly cursor: CursorState
}

/** As the ledger of the product: events wait in memory up to `flushAfterMs` or `maxPending`, in order. */
const flushAfterMs = 500
const maxPending = 256

export class Disk {
  checkpoint: SimulatedCheckpoint | undefined
  readonly #events: LedgerEvent[] = []
  #pending: LedgerEventInput[] = []
  #flushAtMs = Number.POSITIVE_INFINITY

  append(event: LedgerEventInput, clock: Clock): void {
    if (clock.now() >= this.#flushAtMs || this.#pending.length >= maxPending) this.flush()
    if (this.#pending.length === 0) this.#flushAtMs = clock.now() + flushAfterMs
    this.#pending.push(event)
  }

  flush(): void {
    for (const event of this.#pending) this.#events.push({ ...event, id: this.#events.length + 1 })
    this.#pending = []
    this.#flushAtMs = Number.POSITIVE_INFINITY
  }

  /** The process dies: what waited in memory is gone, unless its time to be written had come. */
  lose(clock: Clock): void {
    if (clock.now() >= this.#flushAtMs) this.flush()
    this.#pending = []
    this.#flushAtMs = Number.POSITIVE_INFINITY
  }

  /** Nothing was saved before the process died: the run begins anew. */
  clear(): void {
    this.#events.length = 0
  }

  get pending(): number {
    return this.#pending.length
  }

  get events(): readonly LedgerEvent[] {
    return this.#events
  }

  account(): OccurrenceAccount {
    this.flush()
    return accountOccurrences(this.#events)
  }

  summary(): LedgerSummary {
    this.flush()
    return summarize(this.#events, this.#events.length)
  }
}

export { type Audit, kinds }
