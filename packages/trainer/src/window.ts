// The groups of one optimizer step, taken from the rollout side with the time it took to wait for them.
import { CohortError } from "@cohort/errors"
import { type Clock, type RolloutWorker, type SampleGroup, timerOver } from "@cohort/rollout"
import type { GroupWait } from "./watch/account.ts"

export interface Window {
  readonly groups: readonly SampleGroup[]
  /** How long each group, refused ones too, was waited for. */
  readonly waits: readonly GroupWait[]
  readonly waitSeconds: number
}

export interface WindowOptions {
  readonly groups: number
  readonly iterator: AsyncIterator<SampleGroup>
  readonly worker: Pick<RolloutWorker, "status" | "release">
  /** Why a group cannot be trained: it is released, and another is waited for. */
  readonly refusal: (group: SampleGroup) => string | null
  /** Told of a group that came after the signal aborted. */
  readonly onLate: (group: SampleGroup) => void
  readonly clock: Clock
  /** Silence of the worker's heartbeat after which it counts as hung, ms. */
  readonly heartbeatStaleMs: number
  readonly signal: AbortSignal
}

const lookEveryMs = 1_000

/**
 * Takes `groups` groups. Fewer come back when the prompts have ended or the signal aborted.
 * @throws CohortError what the rollout side failed with; `worker_failed` when its heartbeat stopped, naming what is in flight
 */
export async function takeWindow(options: WindowOptions): Promise<Window> {
  const { clock, iterator, signal } = options
  const start = clock.now()
  const groups: SampleGroup[] = []
  const waits: GroupWait[] = []
  while (groups.length < options.groups && !signal.aborted) {
    const askedAtMs = clock.now()
    const next = await nextOrHung(iterator, options)
    if (next === undefined || next.done === true) break
    waits.push({ group: next.value, askedAtMs, gotAtMs: clock.now() })
    const reason = options.refusal(next.value)
    if (reason === null) groups.push(next.value)
    else options.worker.release(next.value.occurrence, reason)
  }
  return { groups, waits, waitSeconds: (clock.now() - start) / 1000 }
}

async function nextOrHung(iterator: AsyncIterator<SampleGroup>, options: WindowOptions): Promise<IteratorResult<SampleGroup> | undefined> {
  const { clock, worker, signal, heartbeatStaleMs } = options
  const pending = iterator.next()
  const watch = new AbortController()
  const stopWatch = (): void => watch.abort(timerOver)
  signal.addEventListener("abort", stopWatch, { once: true })
  try {
    for (;;) {
      const winner = await Promise.race([pending, clock.sleep(lookEveryMs, watch.signal).then(() => "look" as const, () => "stopped" as const)])
      if (winner !== "look" && winner !== "stopped") return winner
      if (signal.aborted) {
        // The worker is stopped next, which ends the iterator; nobody waits for this promise then, but a group may be on its way.
        pending.then((late) => late.done !== true && options.onLate(late.value), () => undefined)
        return undefined
      }
      const { heartbeatAtMs, groupsInFlight, queueDepth, lastError } = worker.status
      const silentMs = clock.now() - heartbeatAtMs
      if (silentMs > heartbeatStaleMs)
        throw new CohortError("worker_failed", `the rollout worker has been silent for ${Math.round(silentMs / 1000)} s with ${groupsInFlight} groups in flight and ${queueDepth} queued${lastError === undefined ? "" : `; its last error was: ${lastError}`}`, {
          hint: "A synchronous reward or tool that never returns blocks it: set isolate for it. Raise rollout.heartbeatStaleMs if it is only slow.",
        })
    }
  } finally {
    watch.abort(timerOver)
    signal.removeEventListener("abort", stopWatch)
  }
}
