// The metrics vector that leaves the compiled step, and how the trainer adds it up over an optimizer window.
import { CohortError } from "@cohort/errors"
import { AGE_BUCKETS, type AgeSum, type ObjectiveMetrics } from "./objective.ts"

/** Metrics that add up, in their order within the vector. */
export const SUM_NAMES = [
  "tokens",
  "ratioSum",
  "clipLowSum",
  "clipHighSum",
  "klBehaviorSum",
  "entropySum",
  "logProbGapSum",
  "missingBehaviorSum",
  "saturatedSum",
  "klReferenceSum",
  "correctionSum",
  "maskedSum",
  "behaviorRatioSum",
  "behaviorRatioSquareSum",
] as const satisfies readonly (keyof ObjectiveMetrics)[]

/** Metrics by age, which add up: all buckets of one figure, then of the next. */
export const AGE_NAMES: readonly AgeSum[] = (["Tokens", "ClipSum", "KlSum"] as const).flatMap((figure) => AGE_BUCKETS.map((bucket): AgeSum => `age${figure}${bucket}`))

/** Metrics of which the larger counts. */
export const MAXIMUM_NAMES = [
  "ratioMax",
  "logProbGapMax",
  "correctionMax",
  "behaviorRatioMax",
  "clipLowMax",
  "clipHighMax",
  "clipRegionMax",
  "unclippedLowMax",
  "unclippedHighMax",
  "unclippedRegionMax",
] as const satisfies readonly (keyof ObjectiveMetrics)[]

/** Parts of the loss, which add up. */
export const LOSS_NAMES = ["loss", "policyLoss", "klLoss", "entropyBonus"] as const satisfies readonly (keyof ObjectiveMetrics)[]

/** Order of the entries in the vector that `policyObjective` returns. */
export const METRIC_NAMES = [...SUM_NAMES, ...AGE_NAMES, ...MAXIMUM_NAMES, ...LOSS_NAMES] as const

type MetricName = (typeof METRIC_NAMES)[number]

const maximumNames: ReadonlySet<MetricName> = new Set(MAXIMUM_NAMES)

function build(valueOf: (name: MetricName, index: number) => number): ObjectiveMetrics {
  const entries = METRIC_NAMES.map((name, index) => [name, valueOf(name, index)] as const)
  // Object.fromEntries forgets the names; the return type checks that METRIC_NAMES covers ObjectiveMetrics.
  return Object.fromEntries(entries) as Record<MetricName, number>
}

/** Metrics of nothing: the neutral element of {@link addMetrics}. */
export const EMPTY_METRICS: ObjectiveMetrics = build(() => 0)

/**
 * Names the entries of a metrics vector.
 *
 * @throws CohortError `internal` when the vector's length is not that of {@link METRIC_NAMES}.
 * @example
 * const metrics = unpackMetrics(await vector.data())
 */
export function unpackMetrics(vector: ArrayLike<number>): ObjectiveMetrics {
  if (vector.length !== METRIC_NAMES.length)
    throw new CohortError("internal", `a metrics vector has ${METRIC_NAMES.length} entries, this one ${vector.length}`, {
      hint: "Pass the `metrics` output of policyObjective unchanged.",
    })
  return build((_, index) => vector[index]!)
}

/** Sum of two micro-batches' metrics; {@link MAXIMUM_NAMES} take the larger. NaN stays NaN. */
export function addMetrics(a: ObjectiveMetrics, b: ObjectiveMetrics): ObjectiveMetrics {
  return build((name) => (maximumNames.has(name) ? Math.max(a[name], b[name]) : a[name] + b[name]))
}

/**
 * Metrics of several passes over the same tokens, added up, as those of one: sums and parts of the loss are means over the passes, maxima stay.
 *
 * @example
 * const step = meanOfPasses(addMetrics(first, second), 2) // step.tokens is that of one pass
 */
export function meanOfPasses(metrics: ObjectiveMetrics, passes: number): ObjectiveMetrics {
  return build((name) => (maximumNames.has(name) ? metrics[name] : metrics[name] / passes))
}
