// From the `objective` section of a run to the spec of one optimizer step. The section is taken by its shape: this package knows no config.
import type { EntropyControlSettings } from "./entropy-control.ts"
import { windowNormalizer } from "./normalizer.ts"
import type { WindowTotals } from "./normalizer.ts"
import type { CorrectionSpec, KlEstimator, ObjectiveKind, ObjectiveSpec, RatioLevel } from "./objective.ts"

/** What of a run's `objective` section the loss reads. */
export interface ObjectiveSettings {
  readonly kind: ObjectiveKind
  readonly level: "auto" | RatioLevel
  readonly oldPolicy: "auto" | "behavior" | "proximal"
  readonly epsilonLow: number
  readonly epsilonHigh: number
  readonly delta?: number
  readonly klCoefficient: number
  readonly klEstimator: KlEstimator
  readonly klUnbiased: boolean
  /** "reward": the KL lowers rewards (see `completionKl`), so the loss has no term. */
  readonly klIn: "loss" | "reward"
  readonly entropyCoefficient: number
  readonly entropyAdaptive: boolean
  readonly entropyTarget: number
  readonly entropyDelta: number
  readonly entropyMin: number
  readonly entropyMax: number
  readonly topEntropyShare: number
  readonly correction: "none" | CorrectionSpec["mode"]
  readonly correctionMin?: number
  readonly correctionMax: number
  readonly offPolicyThreshold?: number
  readonly sapoTemperaturePositive: number
  readonly sapoTemperatureNegative: number
  readonly vespoKPositive: number
  readonly vespoLambdaPositive: number
  readonly vespoKNegative: number
  readonly vespoLambdaNegative: number
}

/** What changes from step to step. */
export interface WindowFacts extends WindowTotals {
  readonly temperature: number
  /** From `appliedEntropyCoefficient` where the control is adaptive. */
  readonly entropyCoefficient?: number
  /** From `entropyThreshold` over the window's trained tokens, and how many reach it; needed with `topEntropyShare` under 1. */
  readonly topEntropy?: { readonly threshold: number; readonly tokens: number }
}

/** What a step must have measured or computed before its spec can be made and its batches run. */
export interface ObjectiveDemands {
  /** Reference log-probs on every micro-batch. */
  readonly referenceInLoss: boolean
  /** Reference log-probs of every completion before advantages. */
  readonly referenceInReward: boolean
  /** The trainer's own log-probs of the window before its first optimizer step. */
  readonly proximal: boolean
  /** Entropies of all trained tokens of the window before its first micro-batch. */
  readonly windowEntropies: boolean
  readonly entropyControl: EntropyControlSettings | undefined
}

export function objectiveDemands(settings: ObjectiveSettings): ObjectiveDemands {
  const hasKl = settings.klCoefficient > 0
  return {
    referenceInLoss: hasKl && settings.klIn === "loss",
    referenceInReward: hasKl && settings.klIn === "reward",
    proximal: settings.correction !== "none" || settings.oldPolicy === "proximal",
    windowEntropies: settings.topEntropyShare < 1,
    entropyControl: settings.entropyAdaptive
      ? { target: settings.entropyTarget, delta: settings.entropyDelta, min: settings.entropyMin, max: settings.entropyMax }
      : undefined,
  }
}

/**
 * The spec of one optimizer step. Entropy bonus and KL term are there only where their coefficient is above 0 (or the control adaptive), so that
 * what is off costs nothing.
 *
 * @example
 * const spec = objectiveSpec(config.objective, { ...windowTotals(samples), maxCompletionTokens: 512, temperature: 1 })
 */
export function objectiveSpec(settings: ObjectiveSettings, window: WindowFacts): ObjectiveSpec {
  const { kind, correction } = settings
  const demands = objectiveDemands(settings)
  const entropyCoefficient = window.entropyCoefficient ?? settings.entropyCoefficient
  const hasBonus = settings.entropyAdaptive || settings.entropyCoefficient > 0
  return {
    kind,
    epsilonLow: settings.epsilonLow,
    epsilonHigh: settings.epsilonHigh,
    temperature: window.temperature,
    normalizer: windowNormalizer(kind, window),
    ...(settings.level === "auto" ? {} : { level: settings.level }),
    ...(settings.oldPolicy === "proximal" ? { oldPolicy: "proximal" } : {}),
    ...(settings.delta === undefined ? {} : { delta: settings.delta }),
    ...(demands.referenceInLoss ? { klCoefficient: settings.klCoefficient, klEstimator: settings.klEstimator, klUnbiased: settings.klUnbiased } : {}),
    ...(hasBonus ? { entropyCoefficient, windowTokens: Math.max(1, window.topEntropy?.tokens ?? window.trainedTokens) } : {}),
    ...(window.topEntropy === undefined ? {} : { entropyThreshold: window.topEntropy.threshold }),
    ...(correction === "none" ? {} : { correction: correctionOf(correction, settings) }),
    ...(settings.offPolicyThreshold === undefined ? {} : { offPolicyThreshold: settings.offPolicyThreshold }),
    ...(kind === "sapo" ? { sapo: { temperaturePositive: settings.sapoTemperaturePositive, temperatureNegative: settings.sapoTemperatureNegative } } : {}),
    ...(kind === "vespo" ? { vespo: vespoOf(settings) } : {}),
  }
}

function correctionOf(mode: CorrectionSpec["mode"], { correctionMin, correctionMax }: ObjectiveSettings): CorrectionSpec {
  return { mode, max: correctionMax, ...(correctionMin === undefined ? {} : { min: correctionMin }) }
}

function vespoOf(settings: ObjectiveSettings): NonNullable<ObjectiveSpec["vespo"]> {
  return {
    kPositive: settings.vespoKPositive,
    lambdaPositive: settings.vespoLambdaPositive,
    kNegative: settings.vespoKNegative,
    lambdaNegative: settings.vespoLambdaNegative,
  }
}
