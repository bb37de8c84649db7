// Two-stage interruption: the first signal asks the run to end well, the second ends everything at once.
import { CohortError } from "@cohort/errors"
import type { Shell, SignalName } from "./shell.ts"

/** A terminal signals the whole group, and launchers pass it on: what comes this soon after the first is the same key. */
const sameKeyMs = 300

export interface Interrupts {
  /** Aborts at the first signal. */
  readonly signal: AbortSignal
  readonly interrupted: boolean
  [Symbol.dispose](): void
}

export interface InterruptOptions {
  /** Called at the first signal, after the abort. */
  readonly onFirst: (name: SignalName) => void
  /** Called at the second one, before the process ends; puts the terminal in order. */
  readonly onSecond?: () => void
}

/**
 * Watches SIGINT, SIGTERM and SIGHUP until disposed. The second of them exits with 130.
 *
 * @example
 * using interrupts = watchInterrupts(shell, { onFirst: () => log("Stopping after this step. Ctrl-C again ends at once.") })
 * await work(interrupts.signal)
 */
export function watchInterrupts(shell: Shell, { onFirst, onSecond }: InterruptOptions): Interrupts {
  const controller = new AbortController()
  let firstMs: number | undefined
  const stop = shell.onSignal(["SIGINT", "SIGTERM", "SIGHUP"], (name) => {
    if (firstMs === undefined) {
      firstMs = shell.now()
      controller.abort(new CohortError("aborted", `Interrupted by ${name}.`))
      onFirst(name)
      return
    }
    if (shell.now() - firstMs < sameKeyMs) return
    onSecond?.()
    shell.exitNow(130)
  })
  return {
    signal: controller.signal,
    get interrupted() {
      return firstMs !== undefined
    },
    [Symbol.dispose]: stop,
  }
}
