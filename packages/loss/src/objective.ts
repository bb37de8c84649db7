// What a training step minimises, as plain data: it crosses the process border to the trainer worker.

/** Names of the policy objectives; each has a file of its own in `objectives/`. */
export type ObjectiveKind =
  | "grpo"
  | "dapo"
  | "bnpo"
  | "dr_grpo"
  | "cispo"
  | "gspo"
  | "gspo_token"
  | "sapo"
  | "luspo"
  | "vespo"

export interface ObjectiveSpec {
  /** Which surrogate; each has a file of its own. */
  readonly kind: ObjectiveKind
  /** Overrides the kind's own ratio; not for gspo, gspo_token and vespo, whose ratio is what they are. */
  readonly level?: RatioLevel
  /**
   * Whose log-probs the ratio is taken to: the sampler's, or the trainer's own before the first optimizer step on this batch (decoupled PPO, arXiv
   * 2505.24298). "proximal" when there is a correction, else "behavior".
   */
  readonly oldPolicy?: "behavior" | "proximal"
  /** Ratio clip range is [1 - epsilonLow, 1 + epsilonHigh]. */
  readonly epsilonLow: number
  readonly epsilonHigh: number
  /** Logits are divided by it before log-probs, as the sampler did. */
  readonly temperature: number
  /** What the summed losses of this micro-batch are divided by, a total of the whole optimizer window: see `windowNormalizer`. */
  readonly normalizer: number
  /** Upper bound of the ratio in the unclipped product (two-sided clipping, INTELLECT-2); above 1 + epsilonHigh. */
  readonly delta?: number
  /** Weight of the KL to the reference policy; needs reference log-probs. */
  readonly klCoefficient?: number
  /** Estimator of that KL; "k3" when absent. */
  readonly klEstimator?: KlEstimator
  /** Multiplies the KL term by the policy ratio, which makes its sampled gradient unbiased under old samples. */
  readonly klUnbiased?: boolean
  /** Weight of the entropy bonus, a mean over the window's tokens whatever the kind's own reduction. */
  readonly entropyCoefficient?: number
  /** Tokens of the window that the bonus acts on (trained, and over the threshold if there is one): its divisor. */
  readonly windowTokens?: number
  /** Only tokens whose entropy reaches it take the policy loss and the bonus: see `entropyThreshold`. */
  readonly entropyThreshold?: number
  /** Corrects the mismatch between the sampler and the trainer's own policy of the same version. */
  readonly correction?: CorrectionSpec
  /** Sequences with a negative advantage whose mean (behaviour - policy) log-prob exceeds it are left out (DeepSeek-V3.2). */
  readonly offPolicyThreshold?: number
  readonly sapo?: SapoSpec
  readonly vespo?: VespoSpec
}

/**
 * token: r = p/old of each token. sequence: its geometric mean over the sequence. sequenceToken: the value of the latter with the gradient of the
 * former.
 */
export type RatioLevel = "token" | "sequence" | "sequenceToken"

/** Schulman's estimators of KL(policy || reference) from samples of the policy. */
export type KlEstimator = "k1" | "k2" | "k3"

/** Importance weight of the sampler-to-trainer mismatch, exp(proximal - behaviour), never differentiated. */
export interface CorrectionSpec {
  /** truncate clamps the weight to [min, max]; mask zeroes it outside; geometric_mask keeps or drops a sequence by its mean log-ratio. */
  readonly mode: "token_truncate" | "token_mask" | "sequence_truncate" | "sequence_mask" | "geometric_mask"
  readonly min?: number
  readonly max?: number
}

/** Temperatures of SAPO's soft gate. */
export interface SapoSpec {
  readonly temperaturePositive: number
  readonly temperatureNegative: number
}

/** Shape of VESPO's gamma weighting, per sign of the advantage. */
export interface VespoSpec {
  readonly kPositive: number
  readonly lambdaPositive: number
  readonly kNegative: number
  readonly lambdaNegative: number
}

/** Ages in optimizer steps that are counted apart; the last stands for itself and all above. */
export const AGE_BUCKETS = [0, 1, 2, 3, 4] as const
export type AgeBucket = (typeof AGE_BUCKETS)[number]

/** Sums over the trained tokens of samples of one age: how many, how many a bound clipped, and their k3 to the behaviour policy. */
export type AgeSum = `age${"Tokens" | "ClipSum" | "KlSum"}${AgeBucket}`

/** Sums over the trained tokens of one micro-batch; the trainer adds them over the window and divides by `tokens`. */
export interface ObjectiveMetrics extends Readonly<Record<AgeSum, number>> {
  readonly tokens: number
  /** Already divided by the window's normalizer: adds up to the step's loss = policyLoss + klLoss - entropyBonus. */
  readonly loss: number
  readonly policyLoss: number
  readonly klLoss: number
  readonly entropyBonus: number
  readonly ratioSum: number
  readonly ratioMax: number
  readonly clipLowSum: number
  readonly clipHighSum: number
  /** Largest share, over completions, of tokens that a bound clipped; and of tokens that it left alone, which gives the smallest clipped share. */
  readonly clipLowMax: number
  readonly clipHighMax: number
  readonly clipRegionMax: number
  readonly unclippedLowMax: number
  readonly unclippedHighMax: number
  readonly unclippedRegionMax: number
  /** policy/behaviour ratio of each token whatever the objective's own ratio is: its sum, sum of squares and maximum. */
  readonly behaviorRatioSum: number
  readonly behaviorRatioSquareSum: number
  readonly behaviorRatioMax: number
  /** Schulman's k3 estimate of KL(behaviour || policy) summed over tokens. */
  readonly klBehaviorSum: number
  readonly entropySum: number
  /** |policy log-prob - behaviour log-prob| summed, and its maximum. */
  readonly logProbGapSum: number
  readonly logProbGapMax: number
  /** Tokens without a recorded behaviour log-prob; their ratio is taken as 1. */
  readonly missingBehaviorSum: number
  /** Tokens whose log-ratio was cut to +-20. */
  readonly saturatedSum: number
  /** The chosen estimate of the KL to the reference policy, before its coefficient. */
  readonly klReferenceSum: number
  /** Importance weight of the sampler correction as applied, and its maximum before truncation or masking. */
  readonly correctionSum: number
  readonly correctionMax: number
  /** Trained tokens that a correction, the off-policy mask or the entropy mask left out of the policy loss. */
  readonly maskedSum: number
}
