// Reads of a ledger over any connection; a reader in another process runs the same ones as the writer.
import type { Database, SQLQueryBindings } from "bun:sqlite"
import type { EventFilter, LedgerEvent, MetricPoint } from "./event.ts"

interface EventRow {
  readonly id: number
  readonly at_ms: number
  readonly kind: string
  readonly step: number | null
  readonly version: number | null
  readonly group_id: string | null
  readonly occurrence: number | null
  readonly rollout_id: string | null
  readonly reason: string | null
  readonly data: string | null
}

/** Events after `afterId` that match, ascending by id. */
export function* readEvents(db: Database, filter: EventFilter, afterId: number, limit: number): Generator<LedgerEvent, void, void> {
  const conditions = ["id > ?"]
  const values: SQLQueryBindings[] = [afterId]
  if (filter.kinds !== undefined) {
    conditions.push(`kind IN (${filter.kinds.map(() => "?").join(", ")})`)
    values.push(...filter.kinds)
  }
  for (const [column, value] of [["step", filter.step], ["group_id", filter.groupId], ["occurrence", filter.occurrence], ["rollout_id", filter.rolloutId]] as const) {
    if (value === undefined) continue
    conditions.push(`${column} = ?`)
    values.push(value)
  }
  const sql = `SELECT * FROM events WHERE ${conditions.join(" AND ")} ORDER BY id LIMIT ?`
  for (const row of db.query<EventRow, SQLQueryBindings[]>(sql).iterate(...values, limit)) yield eventOf(row)
}

/** Values of one metric by step. */
export function readMetricSeries(db: Database, name: string, fromStep: number): readonly MetricPoint[] {
  const sql = "SELECT step, value, at_ms AS atMs FROM metrics WHERE name = ? AND step >= ? ORDER BY step"
  return db.query<MetricPoint, [string, number]>(sql).all(name, fromStep)
}

/** All metrics of one step. */
export function readMetrics(db: Database, step: number): Readonly<Record<string, number | null>> {
  const rows = db.query<{ name: string; value: number | null }, [number]>("SELECT name, value FROM metrics WHERE step = ? ORDER BY name").all(step)
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]))
}

export function readMetricNames(db: Database): readonly string[] {
  return db.query<{ name: string }, []>("SELECT DISTINCT name FROM metrics ORDER BY name").all().map(({ name }) => name)
}

function eventOf(row: EventRow): LedgerEvent {
  return {
    id: row.id,
    kind: row.kind,
    atMs: row.at_ms,
    ...(row.step === null ? {} : { step: row.step }),
    ...(row.version === null ? {} : { version: row.version }),
    ...(row.group_id === null ? {} : { groupId: row.group_id }),
    ...(row.occurrence === null ? {} : { occurrence: row.occurrence }),
    ...(row.rollout_id === null ? {} : { rolloutId: row.rollout_id }),
    ...(row.reason === null ? {} : { reason: row.reason }),
    ...(row.data === null ? {} : { data: JSON.parse(row.data) }),
  }
}
