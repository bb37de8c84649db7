// Temporary dataset folders and the error that a promise ends in.
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { isCohortError, type CohortError } from "@cohort/errors"

export const parquetFolder = join(import.meta.dir, "../fixtures")

export interface TempFolder extends Disposable {
  readonly path: string
}

/** A folder with the given files. */
export function folderOf(files: Readonly<Record<string, string | Uint8Array>>): TempFolder {
  const path = mkdtempSync(join(tmpdir(), "cohort-data-"))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), content)
  }
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** The CohortError that `run` ends in; fails when it ends in none. */
export async function errorOf(run: () => unknown): Promise<CohortError> {
  try {
    await run()
  } catch (error) {
    if (isCohortError(error)) return error
    throw error
  }
  throw new Error("expected a CohortError, nothing was thrown")
}

/** One line for each value. */
export function jsonl(...values: readonly unknown[]): string {
  return values.map((value) => JSON.stringify(value)).join("\n")
}
