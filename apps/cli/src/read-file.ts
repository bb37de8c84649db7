// A text file that the user named.
import { resolve } from "node:path"
import { CohortError, toCohortError } from "@cohort/errors"

/**
 * The text of a file.
 *
 * @param path as typed, relative to `cwd`
 * @throws CohortError `config_not_found` where there is none
 */
export async function readNamedFile(path: string, cwd: string): Promise<string> {
  try {
    return await Bun.file(resolve(cwd, path)).text()
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") throw new CohortError("config_not_found", `no file at ${path}`, { cause, hint: "Check the path." })
    throw toCohortError(cause, "file_invalid", path)
  }
}
