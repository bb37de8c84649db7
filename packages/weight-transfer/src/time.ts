// Waits with an end: no transfer may hang because one server does.
import { CohortError } from "@cohort/errors"
import type { Clock } from "@cohort/inference"

/**
 * The promise's result, or `timeout` after `timeoutMs`. The work itself goes on; what it comes to is then nobody's.
 * @throws CohortError `timeout` naming what was waited for
 */
export async function within<T>(work: Promise<T>, timeoutMs: number, what: string, clock: Clock): Promise<T> {
  const done = new AbortController()
  const late = Symbol("late")
  try {
    const first = await Promise.race([work, clock.sleep(timeoutMs, done.signal).then(() => late)])
    if (first !== late) return first as T
    throw new CohortError("timeout", `${what} took longer than ${timeoutMs / 1000} s`, { details: { timeoutMs } })
  } finally {
    done.abort()
  }
}
