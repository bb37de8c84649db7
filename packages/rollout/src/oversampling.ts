// Oversampling: more groups start than a step trains, the first to finish are trained, the rest is cut off. Steps no longer wait for the slowest
// prompts; the price is that slow prompts are trained more rarely than they are drawn, which the bias monitor shows.
import { CohortError } from "@cohort/errors"
import type { StalenessPolicy } from "./protocol.ts"

/**
 * A policy that admits `factor` times the groups, as prime-rl's `oversampling_factor` and slime's over-sampling batch do, and lets the trainer take
 * whichever are finished first. What has not been taken when its last step is over ends as dropped, with the reason `surplus`.
 *
 * @throws CohortError `config_invalid` for a factor below 1
 * @example
 * const worker = createRolloutWorker({ ...options, policy: oversampled(pacedPolicy, 1.5) })
 */
export function oversampled(policy: StalenessPolicy, factor: number): StalenessPolicy {
  if (!(factor >= 1 && Number.isFinite(factor))) throw new CohortError("config_invalid", `the oversampling factor is ${factor}; it must be at least 1`)
  if (factor === 1) return policy
  return {
    ...policy,
    waitsForOldest: false,
    cutsSurplus: true,
    capacity: (state) => policy.capacity({ ...state, groupsPerStep: Math.ceil(state.groupsPerStep * factor) }),
  }
}
