// What ended untrained since the last look, by reason: groups that were dropped, rollouts that left their group.
import type { RolloutEvent } from "./protocol.ts"

/** Counts since the last look; reasons that did not occur are absent. */
export interface Drops {
  readonly groups: Readonly<Record<string, number>>
  readonly rollouts: Readonly<Record<string, number>>
}

export interface DropCounter {
  event(event: Pick<RolloutEvent, "kind" | "reason">): void
  /** Hands out the counts and begins anew. */
  take(): Drops
}

/**
 * @example
 * const drops = createDropCounter()
 * const worker = createRolloutWorker({ ...options, emit: (event) => drops.event(event) })
 * drops.take().groups.zero_spread // groups that dynamic sampling replaced
 */
export function createDropCounter(): DropCounter {
  let groups: Record<string, number> = {}
  let rollouts: Record<string, number> = {}
  return {
    event({ kind, reason = "unknown" }) {
      if (kind === "group.dropped") groups[reason] = (groups[reason] ?? 0) + 1
      else if (kind === "rollout.failed") rollouts[reason] = (rollouts[reason] ?? 0) + 1
    },
    take() {
      const taken = { groups, rollouts }
      groups = {}
      rollouts = {}
      return taken
    },
  }
}
