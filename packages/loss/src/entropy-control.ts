// Adaptive entropy bonus: its coefficient rises while the policy's entropy is under a target and falls while it is above (Skywork-OR1,
// arXiv 2505.22312, section 4.3).
import { CohortError } from "@cohort/errors"

export interface EntropyControlSettings {
  /** Entropy, nats per token, under which the bonus acts. */
  readonly target: number
  /** Change of the coefficient per optimizer step. */
  readonly delta: number
  readonly min: number
  readonly max: number
}

/** State between optimizer steps, as JSON beside a checkpoint. */
export interface EntropyControl {
  readonly coefficient: number
  /** Mean entropy of the last step's tokens; null before the first. */
  readonly lastEntropy: number | null
}

/** The coefficient to use in the coming step: that of the state while the last entropy was at or under the target, else (and at first) 0. */
export function appliedEntropyCoefficient(state: EntropyControl, settings: EntropyControlSettings): number {
  return state.lastEntropy !== null && state.lastEntropy <= settings.target ? state.coefficient : 0
}

/**
 * State after an optimizer step whose trained tokens had the mean entropy `measured`: the coefficient moves by `delta` within [min, max].
 *
 * @param measured sum of entropies / tokens over the whole window, nats
 * @throws CohortError `numeric` for an entropy that is not finite.
 * @example
 * adaptEntropy({ coefficient: 0, lastEntropy: null }, 0.1, { target: 0.2, delta: 0.005, min: 0, max: 1 }) // { coefficient: 0.005, lastEntropy: 0.1 }
 */
export function adaptEntropy(state: EntropyControl, measured: number, settings: EntropyControlSettings): EntropyControl {
  if (!Number.isFinite(measured)) throw new CohortError("numeric", `the entropy of the step is ${measured}`)
  const moved = state.coefficient + (measured <= settings.target ? settings.delta : -settings.delta)
  return { coefficient: Math.min(Math.max(moved, settings.min), settings.max), lastEntropy: measured }
}
