// The numbers of a spec that enter the compiled step as inputs, and the part of a spec that fixes the compiled step itself.
import { CohortError } from "@cohort/errors"
import type { Scalar } from "@tensorflow/tfjs-core"
import type { ObjectiveSpec } from "./objective.ts"
import { objectives } from "./objectives/registry.ts"

/** Looks a scalar input up by name. */
export type ScalarOf = (name: string) => Scalar

/** TRL's defaults of the sapo and vespo constants. */
export const SAPO_DEFAULTS = { temperaturePositive: 1, temperatureNegative: 1.05 } as const
export const VESPO_DEFAULTS = { kPositive: 2, lambdaPositive: 3, kNegative: 3, lambdaNegative: 2 } as const

/** Stands for "no upper bound" of a correction weight. */
const UNBOUNDED = 1e30

/**
 * The scalar inputs that `policyObjective(spec, ...)` reads, in a fixed order for a given {@link objectiveKey}.
 *
 * @throws CohortError `config_invalid` for a spec whose numbers contradict each other.
 * @example
 * const scalars = Object.entries(objectiveScalars(spec)) // [["normalizer", 1000], ["epsilonLow", 0.2], ...]
 */
export function objectiveScalars(spec: ObjectiveSpec): Record<string, number> {
  requireSound(spec)
  const scalars: Record<string, number> = { normalizer: spec.normalizer, epsilonLow: spec.epsilonLow, epsilonHigh: spec.epsilonHigh }
  if (spec.delta !== undefined) scalars["delta"] = spec.delta
  if (spec.klCoefficient !== undefined) scalars["klCoefficient"] = spec.klCoefficient
  if (spec.entropyCoefficient !== undefined) {
    scalars["entropyCoefficient"] = spec.entropyCoefficient
    scalars["windowTokens"] = spec.windowTokens!
  }
  if (spec.entropyThreshold !== undefined) scalars["entropyThreshold"] = spec.entropyThreshold
  if (spec.correction !== undefined) {
    scalars["correctionMin"] = spec.correction.min ?? 0
    scalars["correctionMax"] = spec.correction.max ?? UNBOUNDED
  }
  if (spec.offPolicyThreshold !== undefined) scalars["offPolicyThreshold"] = spec.offPolicyThreshold
  if (spec.kind === "sapo") Object.assign(scalars, { ...SAPO_DEFAULTS, ...spec.sapo })
  if (spec.kind === "vespo") Object.assign(scalars, { ...VESPO_DEFAULTS, ...spec.vespo })
  return scalars
}

/**
 * Names everything of a spec that changes the traced program and nothing that only changes a scalar: the key under which a
 * compiled step may be cached (beside its shape).
 */
export function objectiveKey(spec: ObjectiveSpec): string {
  const parts: string[] = [spec.kind]
  if (spec.level !== undefined) parts.push(spec.level)
  if (spec.oldPolicy === "proximal") parts.push("proximal")
  if (spec.delta !== undefined) parts.push("delta")
  if (spec.klCoefficient !== undefined) parts.push(`kl=${spec.klEstimator ?? "k3"}${spec.klUnbiased === true ? "u" : ""}`)
  if (spec.entropyCoefficient !== undefined) parts.push("entropy")
  if (spec.entropyThreshold !== undefined) parts.push("topEntropy")
  if (spec.correction !== undefined) parts.push(spec.correction.mode)
  if (spec.offPolicyThreshold !== undefined) parts.push("offPolicy")
  return parts.join("+")
}

/** Which optional inputs `policyObjective` reads for a spec. `entropy` true: it must carry a gradient or the values that select tokens. */
export function objectiveNeeds(spec: ObjectiveSpec): { readonly entropy: boolean; readonly reference: boolean; readonly proximal: boolean } {
  return {
    entropy: spec.entropyCoefficient !== undefined || spec.entropyThreshold !== undefined,
    reference: spec.klCoefficient !== undefined,
    proximal: spec.correction !== undefined || spec.oldPolicy === "proximal",
  }
}

function requireSound(spec: ObjectiveSpec): void {
  const refuse = (message: string, hint: string): never => {
    throw new CohortError("config_invalid", message, { hint })
  }
  if (!(spec.normalizer > 0) || !Number.isFinite(spec.normalizer))
    refuse(`normalizer is ${spec.normalizer}`, "Use windowNormalizer with the totals of the optimizer window.")
  if (spec.delta !== undefined && spec.delta <= 1 + spec.epsilonHigh)
    refuse(`delta ${spec.delta} is not above 1 + epsilonHigh = ${1 + spec.epsilonHigh}`, "Raise delta, or leave it out for one-sided clipping.")
  if (spec.entropyCoefficient !== undefined && !(spec.windowTokens !== undefined && spec.windowTokens > 0))
    refuse("entropyCoefficient needs windowTokens", "Pass the trained tokens of the optimizer window.")
  const definition = objectives[spec.kind]
  if (spec.delta !== undefined && definition.clips !== true) refuse(`${spec.kind} does not clip, so delta has no place in it`, "Leave delta out.")
  if (spec.level !== undefined && spec.level !== definition.level && definition.levelFixed === true)
    refuse(`${spec.kind} has the ratio level ${definition.level}, not ${spec.level}`, "Leave level out, or take another kind.")
  const { correction } = spec
  if (correction === undefined) return
  if (spec.oldPolicy === "behavior")
    refuse("a correction needs the ratio to the proximal policy, not to the behaviour policy", "Leave oldPolicy out: the mismatch would count twice.")
  if (correction.min === undefined && correction.max === undefined)
    refuse(`correction ${correction.mode} has no bound`, "Give max (3 is usual), min, or both.")
  if ((correction.min ?? 0) >= (correction.max ?? UNBOUNDED))
    refuse(`correction min ${correction.min} is not under max ${correction.max}`, "Swap or widen the bounds.")
  if (spec.kind === "vespo" && !correction.mode.startsWith("token_"))
    refuse(`vespo takes token corrections only, not ${correction.mode}`, "Use token_truncate or token_mask.")
}
