// The reference policy that a KL term pulls towards: a copy of the starting weights that stays, or one that follows the policy slowly.
import { CohortError } from "@cohort/errors"

export interface MovingReference {
  /** Optimizer steps between two updates. */
  readonly everySteps: number
  /** Share of the policy in the mix; the rest stays reference. TRL: 0.6 every 512 steps (arXiv 2404.09656). */
  readonly mix: number
}

/** True after the optimizer steps at which the reference moves. `step` counts steps taken, from 1. */
export function referenceMoves(step: number, rule: MovingReference): boolean {
  return step > 0 && step % rule.everySteps === 0
}

/**
 * reference = mix * policy + (1 - mix) * reference, in place.
 *
 * @throws CohortError `internal` for arrays of different length.
 */
export function moveReference(reference: Float32Array, policy: Float32Array, mix: number): void {
  if (reference.length !== policy.length) throw new CohortError("internal", `a reference of ${reference.length} values for a policy of ${policy.length}`)
  for (let index = 0; index < reference.length; index++) reference[index] = mix * policy[index]! + (1 - mix) * reference[index]!
}
