// A row as a file holds it, not yet checked.

export interface RawRow {
  readonly value: unknown
  /** For messages: file and line or row, counted from 1. */
  readonly where: string
}
