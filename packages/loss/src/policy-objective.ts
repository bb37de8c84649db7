// The loss of one micro-batch and its metrics, composed from an objective's surrogate, corrections, KL and entropy.
// Plain tfjs-core ops of static shape without reading a value back, so a tracer can record it once and compile it.
import { add, div, exp, maximum, mul, sub } from "@tensorflow/tfjs-core"
import type { Scalar, Tensor, Tensor1D, Tensor2D } from "@tensorflow/tfjs-core"
import { CohortError } from "@cohort/errors"
import { highEntropyMask, offPolicyMask, samplerCorrection } from "./correction.ts"
import { detach } from "./detach.ts"
import { klEstimate } from "./kl.ts"
import { metricVector } from "./metric-vector.ts"
import type { ObjectiveSpec, RatioLevel } from "./objective.ts"
import type { ObjectiveDefinition } from "./objectives/definition.ts"
import { objectives } from "./objectives/registry.ts"
import { objectiveNeeds } from "./scalars.ts"
import type { ScalarOf } from "./scalars.ts"
import { cleanTokens, limit, sequenceMean, total } from "./tokens.ts"
import type { ObjectiveInputs, Tokens } from "./tokens.ts"

export interface ObjectiveOutput {
  /** Scalar; adds up over micro-batches to the step's loss. */
  readonly loss: Scalar
  /** Sums in the order of METRIC_NAMES. In eager mode inside `tf.grads`, `tf.keep` it before the closure returns. */
  readonly metrics: Tensor1D
}

/**
 * Loss and metrics of one micro-batch. Masked positions contribute exactly zero whatever their log-probs hold. The sample
 * weight multiplies policy loss and KL; the entropy bonus is unweighted. Nothing of `spec` but its {@link objectiveKey} is read:
 * every number comes from `inputs.scalars`, so a compiled step serves every window.
 *
 * @throws CohortError `internal` when an input that the spec needs is missing.
 * @example
 * const scalars = Object.fromEntries(Object.entries(objectiveScalars(spec)).map(([name, value]) => [name, tf.scalar(value)]))
 * const { loss, metrics } = policyObjective(spec, { rows, length, logProbs_N, behaviorLogProbs_N, advantages_N, weights_N, mask_N, scalars })
 */
export function policyObjective(spec: ObjectiveSpec, inputs: ObjectiveInputs): ObjectiveOutput {
  const definition = objectives[spec.kind]
  requireInputs(spec, inputs)
  const scalar = scalarLookup(inputs)
  const tokens = cleanTokens(inputs)
  const policy_RL = detach(tokens.logProbs_RL)
  const proximal_RL = tokens.proximal_RL ?? policy_RL
  const toProximal = objectiveNeeds(spec).proximal
  const correction = spec.correction && samplerCorrection(spec.correction, proximal_RL, tokens, scalar)
  const old_RL = toProximal ? proximal_RL : tokens.behavior_RL
  const rawLogRatio_RL = sub(tokens.logProbs_RL, old_RL) as Tensor2D
  const logRatio_RL = limit(rawLogRatio_RL)
  const ratio = exp(atLevel(spec.level ?? definition.level, logRatio_RL, tokens))
  const surrogate = definition.surrogate({ tokens, ratio, logRatio_RL, correction: correction?.weight, scalar, spec })

  const keep_RL = keepMask(spec, policy_RL, tokens, scalar)
  let loss_RL = surrogate.loss_RL
  if (correction !== undefined && definition.ownsCorrection !== true) loss_RL = mul(loss_RL, correction.weight)
  if (keep_RL !== undefined) loss_RL = mul(loss_RL, keep_RL)
  const normalizer = scalar("normalizer")
  const policyLoss = reduceLoss(definition, loss_RL, tokens, normalizer)
  let kl_RL: Tensor | undefined
  let klLoss: Scalar | undefined
  let bonus: Scalar | undefined
  if (spec.klCoefficient !== undefined) {
    kl_RL = klEstimate(spec.klEstimator ?? "k3", sub(tokens.reference_RL!, tokens.logProbs_RL))
    if (spec.klUnbiased === true) kl_RL = mul(kl_RL, ratio)
    klLoss = reduceLoss(definition, mul(kl_RL, scalar("klCoefficient")), tokens, normalizer)
  }
  if (spec.entropyCoefficient !== undefined) bonus = entropyBonus(spec, tokens, scalar)
  let loss = policyLoss
  if (klLoss !== undefined) loss = add(loss, klLoss)
  if (bonus !== undefined) loss = sub(loss, bonus)

  const losses = { loss, policyLoss, klLoss, entropyBonus: bonus }
  return { loss, metrics: metricVector({ tokens, surrogate, ratio, policy_RL, kl_RL, correction, keep_RL, logRatio_RL: rawLogRatio_RL, losses }) }
}

function requireInputs(spec: ObjectiveSpec, inputs: ObjectiveInputs): void {
  const needs = objectiveNeeds(spec)
  const missing: string[] = []
  if (needs.entropy && inputs.entropy_N === undefined) missing.push("entropy_N")
  if (needs.reference && inputs.referenceLogProbs_N === undefined) missing.push("referenceLogProbs_N")
  if (missing.length > 0)
    throw new CohortError("internal", `policyObjective needs ${missing.join(" and ")} for this objective`, {
      hint: "objectiveNeeds(spec) says which inputs to pass.",
    })
}

const scalarLookup =
  (inputs: ObjectiveInputs): ScalarOf =>
  (name) => {
    const scalar = inputs.scalars[name]
    if (scalar === undefined)
      throw new CohortError("internal", `policyObjective got no scalar ${name}`, { hint: "Pass every entry of objectiveScalars(spec)." })
    return scalar
  }

/** The log-ratio of each token, or of its sequence. */
function atLevel(level: RatioLevel, logRatio_RL: Tensor2D, tokens: Tokens): Tensor2D {
  if (level === "token") return logRatio_RL
  const sequence = sequenceMean(logRatio_RL, tokens)
  if (level === "sequence") return sequence
  return add(detach(sequence), sub(tokens.logProbs_RL, detach(tokens.logProbs_RL)))
}

/** Product of the 0/1 masks [R, L] that leave tokens out of the policy loss; undefined when the spec has none. */
function keepMask(spec: ObjectiveSpec, policy_RL: Tensor2D, tokens: Tokens, scalar: ScalarOf): Tensor | undefined {
  const masks: Tensor[] = []
  if (spec.offPolicyThreshold !== undefined) masks.push(offPolicyMask(policy_RL, tokens, scalar))
  if (spec.entropyThreshold !== undefined) masks.push(highEntropyMask(tokens.entropy_RL, scalar))
  return masks.length === 0 ? undefined : masks.reduce((product, mask) => mul(product, mask))
}

function reduceLoss(definition: ObjectiveDefinition, loss_RL: Tensor, tokens: Tokens, normalizer: Scalar): Scalar {
  const weighted_RL = mul(mul(loss_RL, tokens.mask_RL), tokens.weights_RL)
  const summed_RL = definition.reduction === "sequence" ? div(weighted_RL, maximum(tokens.trained, 1)) : weighted_RL
  return div(total(summed_RL), normalizer)
}

/** coefficient * sum of entropies over the tokens that take the policy loss / trained tokens of the window. */
function entropyBonus(spec: ObjectiveSpec, tokens: Tokens, scalar: ScalarOf): Scalar {
  const active_RL = spec.entropyThreshold === undefined ? tokens.mask_RL : mul(tokens.mask_RL, highEntropyMask(tokens.entropy_RL, scalar))
  return div(mul(total(mul(tokens.entropy_RL, active_RL)), scalar("entropyCoefficient")), scalar("windowTokens"))
}
