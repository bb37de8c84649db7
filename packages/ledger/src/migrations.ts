// The file's tables, as numbered steps. A step that was released is never changed: add another.
import type { Database } from "bun:sqlite"
import { CohortError } from "@cohort/errors"

const migrations: readonly string[] = [
  `CREATE TABLE events (
     id INTEGER PRIMARY KEY AUTOINCREMENT,
     at_ms REAL NOT NULL,
     kind TEXT NOT NULL,
     step INTEGER,
     version INTEGER,
     group_id TEXT,
     occurrence INTEGER,
     rollout_id TEXT,
     reason TEXT,
     data TEXT
   ) STRICT;
   CREATE INDEX events_by_kind ON events (kind, id);
   CREATE INDEX events_by_occurrence ON events (occurrence, id) WHERE occurrence IS NOT NULL;
   CREATE TABLE metrics (
     name TEXT NOT NULL,
     step INTEGER NOT NULL,
     value REAL,
     at_ms REAL NOT NULL,
     PRIMARY KEY (name, step)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX metrics_by_step ON metrics (step);`,
]

/** Version of the newest layout that this program knows. */
export const schemaVersion = migrations.length

/** Layout version of an open file; 0 for a new one. */
export function readSchemaVersion(db: Database): number {
  return db.query<{ user_version: number }, []>("PRAGMA user_version").get()?.user_version ?? 0
}

/**
 * Brings a file to the newest layout, each step in a transaction of its own.
 *
 * @throws CohortError `file_invalid` for a file of a newer program.
 */
export function migrate(db: Database, path: string): void {
  const found = readSchemaVersion(db)
  refuseNewer(found, path)
  for (let version = found; version < schemaVersion; version++)
    db.transaction(() => {
      db.run(migrations[version]!)
      db.run(`PRAGMA user_version = ${version + 1}`)
    })()
}

export function refuseNewer(found: number, path: string): void {
  if (found <= schemaVersion) return
  throw new CohortError("file_invalid", `${path} has ledger layout ${found}, this version of Cohort knows up to ${schemaVersion}`, {
    hint: "Update Cohort, or open the file with the version that wrote it.",
    details: { path, found, known: schemaVersion },
  })
}
