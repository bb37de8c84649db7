// What a training step minimises, as plain data: it crosses the process border to the trainer worker.

export interface ObjectiveSpec {
  /** Which surrogate; each has a file of its own. */
  readonly kind: "grpo" | "dapo" | "bnpo" | "dr_grpo"
  /** Ratio clip range is [1 - epsilonLow, 1 + epsilonHigh]. */
  readonly epsilonLow: number
  readonly epsilonHigh: number
  /** Logits are divided by it before log-probs, as the sampler did. */
  readonly temperature: number
  /** What the summed token losses of this micro-batch are divided by: the trained tokens of the whole optimizer window. */
  readonly normalizer: number
}

/** Sums over the trained tokens of one micro-batch; the trainer adds them over the window and divides by `tokens`. */
export interface ObjectiveMetrics {
  readonly tokens: number
  /** Already divided by the window's normalizer: adds up to the step's loss. */
  readonly loss: number
  readonly ratioSum: number
  readonly ratioMax: number
  readonly clipLowSum: number
  readonly clipHighSum: number
  /** Schulman's k3 estimate of KL(behaviour || policy) summed over tokens. */
  readonly klBehaviorSum: number
  readonly entropySum: number
  /** |policy log-prob - behaviour log-prob| summed, and its maximum. */
  readonly logProbGapSum: number
  readonly logProbGapMax: number
}
