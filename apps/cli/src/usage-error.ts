// What was typed wrongly: exit code 2, with the help page to read.
import { CohortError } from "@cohort/errors"

/** An error about the command line itself. */
export function usageError(message: string, hint: string): CohortError {
  return new CohortError("config_invalid", message, { hint, details: { usage: true } })
}
