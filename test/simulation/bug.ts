// Three published faults of other systems, put back in on purpose: a simulation that does not see them proves nothing.
import type { CursorState } from "@cohort/data"
import type { OccurrenceAccount } from "@cohort/ledger"

export const bugs = {
  /** NeMo-RL #3238: a rollout that never ends has no deadline, and its step waits for ever. */
  stuckRollout: "no deadline on generation",
  /** NeMo-RL #3066: a resumed run takes what was generated and waited for training as done, and goes on behind it. */
  skippedTarget: "a resume that skips what was in flight and queued",
  /** TRL #7274: a dropped group never counts as resolved, so the saved position stays before it and everything later comes again. */
  pinnedCursor: "a saved position that a dropped group holds back",
} as const
export type Bug = keyof typeof bugs

/** The position that the faulty resumes go on from; undefined where the bug is not about resuming. */
export function faultyCursor(bug: Bug | undefined, saved: CursorState, account: OccurrenceAccount): CursorState | undefined {
  if (bug === "skippedTarget") return { ...saved, next: Math.max(saved.next, ...account.occurrences.map(({ occurrence }) => occurrence + 1)), returned: [] }
  if (bug !== "pinnedCursor") return undefined
  const trained = new Set(account.occurrences.filter(({ state }) => state === "trained").map(({ occurrence }) => occurrence))
  let next = 0
  while (trained.has(next)) next++
  return { ...saved, next, returned: [] }
}
