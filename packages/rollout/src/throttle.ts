// Holds groups back when freshness is out of its limits: fewer may be ahead of the trainer than the policy alone would allow.
import type { StalenessPolicy } from "./protocol.ts"

/** Groups that may be ahead of the trainer (in flight, queued, taken); changed while the run goes on. */
export interface Throttle {
  maxAhead: number
}

/**
 * A policy whose admission is also bounded by the throttle; never below one step's groups, or the trainer would wait for ever.
 *
 * @example
 * const throttle = { maxAhead: Number.POSITIVE_INFINITY }
 * const worker = createRolloutWorker({ ...options, policy: throttled(pacedPolicy, throttle) })
 */
export function throttled(policy: StalenessPolicy, throttle: Throttle): StalenessPolicy {
  return {
    ...policy,
    capacity(state) {
      const allowed = policy.capacity(state)
      const limit = Math.max(state.groupsPerStep, throttle.maxAhead)
      const left = Math.max(0, limit - state.groupsInFlight - state.groupsQueued - state.groupsTaken)
      if (left >= allowed.groups) return allowed
      return { groups: left, because: `throttled to ${limit} groups ahead of the trainer; ${limit - left} are` }
    },
  }
}
