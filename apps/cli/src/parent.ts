// A server without the process that asked for it serves nobody: it ends when that process is gone.
import { CohortError } from "@cohort/errors"

const lookEveryMs = 500

/** Whether a process of this machine lives; also one of another user. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

/** Aborts when the process is gone; never without a pid. A number that is taken over by another process counts as alive. */
export function parentDeath(pid: number | undefined, everyMs = lookEveryMs): { readonly signal: AbortSignal; [Symbol.dispose](): void } {
  const controller = new AbortController()
  if (pid === undefined) return { signal: controller.signal, [Symbol.dispose]: () => {} }
  // Where it is our parent, a change of parent tells its death even if somebody else got its number.
  const wasParent = process.ppid === pid
  const timer = setInterval(() => {
    if (isAlive(pid) && (!wasParent || process.ppid === pid)) return
    clearInterval(timer)
    controller.abort(new CohortError("aborted", `process ${pid}, which asked for this one, is gone`))
  }, everyMs)
  return { signal: controller.signal, [Symbol.dispose]: () => clearInterval(timer) }
}
