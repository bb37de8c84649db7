// What a training step minimises. docs/objectives has a page on each of these.
import * as v from "valibot"
import { above, choice, flag, int, real, share } from "../field.ts"

export const objectiveSection = v.pipe(
  v.strictObject({
    kind: v.optional(
      choice(
        ["dapo", "grpo", "bnpo", "dr_grpo", "cispo", "gspo", "gspo_token", "sapo", "luspo", "vespo"],
        "The policy objective: its ratio, its clipping and its mean; a page each in docs/objectives",
      ),
      "dapo",
    ),
    level: v.optional(
      choice(["auto", "token", "sequence", "sequenceToken"], "Probability ratio per token or per completion (sequenceToken: its value with the token's gradient); auto is the kind's own"),
      "auto",
    ),
    oldPolicy: v.optional(
      choice(["auto", "behavior", "proximal"], "Ratio to the sampler's log-probs, or to the trainer's own before the step; auto is proximal where there is a correction"),
      "auto",
    ),
    epsilonLow: v.optional(share("The probability ratio is clipped below 1 minus this"), 0.2),
    epsilonHigh: v.optional(real(0, "The probability ratio is clipped above 1 plus this; clip-higher as in DAPO is 0.28, cispo's cap of 5 is 4"), 0.2),
    delta: v.exactOptional(above(1, "Two-sided clipping: most the ratio counts for completions with a negative advantage; above 1 plus `objective.epsilonHigh`")),
    advantage: v.optional(
      choice(["group", "rloo", "reinforce++", "reinforce++baseline", "gdpo"], "How rewards become advantages: against the group, its other members, the batch, or each reward by itself"),
      "group",
    ),
    advantageScale: v.optional(choice(["group", "batch", "none"], "Standard deviation that advantages of `group` are divided by"), "group"),
    standardDeviation: v.optional(choice(["sample", "population"], "Divide the squares by n - 1, or by n"), "sample"),
    advantageEpsilon: v.exactOptional(real(0, "Added to that standard deviation; without it 1e-4 with sample, 1e-8 with population")),
    maskTruncated: v.optional(flag("Leave completions that hit the length limit out of the loss"), false),
    klCoefficient: v.optional(real(0, "Weight of the KL to the reference policy; at 0 none is computed"), 0),
    klEstimator: v.optional(choice(["k1", "k2", "k3"], "Schulman's estimator of that KL"), "k3"),
    klUnbiased: v.optional(flag("In the loss, weigh the KL by the ratio, so that its gradient is right for old samples too"), true),
    klIn: v.optional(choice(["loss", "reward"], "Add the KL to the loss, or take it off the reward"), "loss"),
    reference: v.optional(choice(["start", "moving"], "The reference policy: the starting weights, or a copy that follows the policy"), "start"),
    referenceEverySteps: v.optional(int(1, "Optimizer steps between two updates of a moving reference"), 512),
    referenceMix: v.optional(above(0, "Share of the policy in such an update", 1), 0.6),
    entropyCoefficient: v.optional(real(0, "Weight of the entropy bonus; where it is adaptive, its first value"), 0),
    entropyAdaptive: v.optional(flag("Raise the weight while the entropy is under `objective.entropyTarget`, lower it while above"), false),
    entropyTarget: v.optional(real(0, "Entropy under which an adaptive bonus acts, nats per token"), 0.2),
    entropyDelta: v.optional(above(0, "Change of an adaptive weight per step"), 0.005),
    entropyMin: v.optional(real(0, "Least adaptive weight"), 0),
    entropyMax: v.optional(real(0, "Greatest adaptive weight"), 1),
    topEntropyShare: v.optional(above(0, "Train only this share of the tokens, those of the highest entropy; 1 is all", 1), 1),
    correction: v.optional(
      choice(
        ["none", "token_truncate", "token_mask", "sequence_truncate", "sequence_mask", "geometric_mask"],
        "Importance weight for the mismatch of sampler and trainer: cut to bounds (truncate) or left out beyond them (mask)",
      ),
      "none",
    ),
    correctionMin: v.exactOptional(real(0, "Lower bound of that weight")),
    correctionMax: v.optional(above(0, "Upper bound of that weight; for geometric_mask close to 1, such as 1.05"), 3),
    offPolicyThreshold: v.exactOptional(above(0, "Leave out completions with a negative advantage whose mean log-prob fell by more than this, nats per token")),
    sapoTemperaturePositive: v.optional(above(0, "sapo: temperature of the gate for positive advantages"), 1),
    sapoTemperatureNegative: v.optional(above(0, "sapo: the same for negative ones"), 1.05),
    vespoKPositive: v.optional(real(0, "vespo: power of the ratio for positive advantages"), 2),
    vespoLambdaPositive: v.optional(above(0, "vespo: decay of the ratio for positive advantages"), 3),
    vespoKNegative: v.optional(real(0, "vespo: power of the ratio for negative advantages"), 3),
    vespoLambdaNegative: v.optional(above(0, "vespo: decay of the ratio for negative advantages"), 2),
  }),
  v.description("What a training step minimises"),
)
