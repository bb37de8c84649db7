// A JSON file, whole or not at all.
import { rename, rm, writeFile } from "node:fs/promises"
import { toCohortError } from "@cohort/errors"

/** Replaces a file only when the new one is complete. @throws CohortError `file_invalid`, `disk_full` */
export async function writeJson(path: string, value: object): Promise<void> {
  const partial = `${path}.${crypto.randomUUID()}.partial`
  try {
    await writeFile(partial, `${JSON.stringify(value, null, 2)}\n`, { flush: true })
    await rename(partial, path)
  } catch (cause) {
    await rm(partial, { force: true })
    throw toCohortError(cause, "file_invalid", `writing ${path}`)
  }
}
