// Connections and errors of SQLite in one place: pragmas, the lock of the one writer, and what each failure means to a caller.
import { Database, SQLiteError } from "bun:sqlite"
import { CohortError, toCohortError } from "@cohort/errors"
import { migrate, readSchemaVersion, refuseNewer } from "./migrations.ts"

/** How long a statement waits for another connection. */
const busyTimeoutMs = 5000

export interface WriterConnection {
  readonly db: Database
  close(): void
}

/**
 * Opens a file for its one writer: WAL, so that readers never wait; a lock that the system frees when the process dies.
 *
 * @throws CohortError `file_invalid` when another process writes it or it is no ledger, `disk_full`.
 */
export function openWriter(path: string, maxBytes: number | undefined): WriterConnection {
  return typed(path, () => {
    const lock = acquireLock(path)
    try {
      const db = new Database(path, { create: true, strict: true })
      try {
        db.run(`PRAGMA busy_timeout = ${busyTimeoutMs}`)
        db.run("PRAGMA journal_mode = WAL")
        db.run("PRAGMA synchronous = NORMAL")
        migrate(db, path)
        if (maxBytes !== undefined) limitSize(db, maxBytes)
      } catch (error) {
        db.close()
        throw error
      }
      return {
        db,
        close() {
          // One file is left behind, without the log beside it.
          db.run("PRAGMA wal_checkpoint(TRUNCATE)")
          db.close()
          lock.close()
        },
      }
    } catch (error) {
      lock.close()
      throw error
    }
  })
}

/** Opens a file for reading beside its writer. */
export function openReader(path: string): Database {
  return typed(path, () => {
    const db = new Database(path, { readonly: true, strict: true })
    try {
      db.run(`PRAGMA busy_timeout = ${busyTimeoutMs}`)
      const version = readSchemaVersion(db)
      refuseNewer(version, path)
      if (version === 0) throw new CohortError("file_invalid", `${path} is a database without a ledger`)
      return db
    } catch (error) {
      db.close()
      throw error
    }
  })
}

/** Runs `work` and turns what SQLite throws into a CohortError that names the file. */
export function typed<T>(path: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw asLedgerError(error, path)
  }
}

function asLedgerError(error: unknown, path: string): CohortError {
  if (!(error instanceof SQLiteError)) return toCohortError(error, "file_invalid", path)
  const code = error.code ?? ""
  const context = { cause: error, details: { path, sqlite: code } }
  if (code === "SQLITE_FULL")
    return new CohortError("disk_full", `${path}: there is no room to write the ledger`, {
      ...context,
      hint: "Free disk space, or raise the ledger's size limit; the run can be resumed from its last checkpoint.",
    })
  if (code.startsWith("SQLITE_BUSY")) return new CohortError("timeout", `${path}: the file was locked for ${busyTimeoutMs} ms`, context)
  if (code.startsWith("SQLITE_NOTADB") || code.startsWith("SQLITE_CORRUPT"))
    return new CohortError("file_invalid", `${path} is not a ledger, or it is damaged: ${error.message}`, context)
  if (code.startsWith("SQLITE_CANTOPEN"))
    return new CohortError("file_invalid", `${path} cannot be opened`, { ...context, hint: "Does its folder exist, and may you write there?" })
  return new CohortError("file_invalid", `${path}: ${error.message}`, context)
}

/** An open write transaction on a file of its own: held by the process, freed by the system with it. */
function acquireLock(path: string): Database {
  const lock = new Database(`${path}.lock`, { create: true })
  try {
    lock.run("PRAGMA busy_timeout = 0")
    lock.run("BEGIN EXCLUSIVE")
    return lock
  } catch (error) {
    lock.close()
    if (error instanceof SQLiteError && error.code?.startsWith("SQLITE_BUSY") === true)
      throw new CohortError("file_invalid", `${path} is being written by another process`, {
        cause: error,
        hint: "One run writes one ledger: stop the other run, or choose another output folder.",
        details: { path },
      })
    throw error
  }
}

function limitSize(db: Database, maxBytes: number): void {
  const pageSize = db.query<{ page_size: number }, []>("PRAGMA page_size").get()?.page_size ?? 4096
  db.run(`PRAGMA max_page_count = ${Math.max(1, Math.floor(maxBytes / pageSize))}`)
}
