// A wait that ends: turns silence into a typed error.
import { CohortError } from "@cohort/errors"

/** `promise`, or CohortError `timeout` with `message` after `deadlineMs`. */
export async function withDeadline<Result>(promise: Promise<Result>, deadlineMs: number, message: string): Promise<Result> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new CohortError("timeout", message, { details: { deadlineMs } })), deadlineMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
