// The pages of docs/objectives as data: one per objective, and one per part that goes with any of them.
import type { ObjectiveKind } from "../src/index.ts"

export interface Page {
  readonly title: string
  readonly source: string
  /** Formulas in plain text, one line each. */
  readonly formula: readonly string[]
  readonly about: readonly string[]
  readonly when: string
  /** The lines of a config file. */
  readonly config: string
  /** Names of metrics that tell how it does. */
  readonly metrics: readonly string[]
}

const ratio = ["r_t = exp(log p(t) - log old(t)), old the sampler's log-prob (or the trainer's own before the step: objective.oldPolicy)"]
const clipped = "l_t = -min(r_t A, clip(r_t, 1 - epsilonLow, 1 + epsilonHigh) A)"
const clipMetrics = ["ratio/mean", "clip/low", "clip/high", "clip/region", "clip/region_max", "kl/behavior", "offpolicy/ess"]

export const objectivePages: Readonly<Record<ObjectiveKind, Page>> = {
  dapo: {
    title: "dapo: mean over all tokens of the step",
    source: "DAPO, arXiv 2503.14476, eq. 8; TRL `loss_type=\"dapo\"`",
    formula: [...ratio, clipped, "loss = sum over all trained tokens of the step of l_t / number of trained tokens of the step"],
    about: [
      "Every token weighs the same, so a long completion weighs more than a short one. The divisor spans the whole optimizer step, all micro-batches and workers: a micro-batch of 100 tokens at a mean of 2.0 and one of 900 at 0.5 give 0.65, however the step is cut.",
      "An `epsilonHigh` above `epsilonLow` (clip-higher, 0.28) lets unlikely tokens gain probability and slows the fall of entropy.",
    ],
    when: "The default. Long chains of thought, and completions of very different length.",
    config: 'objective.kind = "dapo"\nobjective.epsilonHigh = 0.28',
    metrics: clipMetrics,
  },
  grpo: {
    title: "grpo: mean within each completion, then over completions",
    source: "DeepSeekMath, arXiv 2402.03300, eq. 3; TRL `loss_type=\"grpo\"`",
    formula: [...ratio, clipped, "loss = mean over completions of (sum of l_t over its trained tokens / their number)"],
    about: ["Every completion weighs the same, so a token of a long one weighs less: long wrong answers are punished little per token, which favours length."],
    when: "To reproduce the first GRPO recipes; completions of similar length.",
    config: 'objective.kind = "grpo"',
    metrics: clipMetrics,
  },
  bnpo: {
    title: "bnpo: mean over tokens",
    source: "TRL `loss_type=\"bnpo\"`",
    formula: [...ratio, clipped, "loss = sum of l_t / number of trained tokens of the step"],
    about: ["TRL divides by the tokens of each local micro-batch, so that its result depends on how a step is cut. Divided by the step's tokens, as here, it equals `dapo`; the name is kept for configs that come from there."],
    when: "To carry a config over. Otherwise `dapo` says the same.",
    config: 'objective.kind = "bnpo"',
    metrics: clipMetrics,
  },
  dr_grpo: {
    title: "dr_grpo: token sums over a constant",
    source: "Dr. GRPO, arXiv 2503.20783; TRL `loss_type=\"dr_grpo\"`",
    formula: [...ratio, clipped, "loss = sum of l_t / (completions of the step * rollout.maxCompletionTokens)"],
    about: ["Neither the length of a completion nor the tokens of the step enter, so length carries no bias. The paper also takes the deviation out of the advantage: `objective.advantageScale = \"none\"`."],
    when: "When length creeps up without gain. The loss is small by construction: the learning rate may be higher.",
    config: 'objective.kind = "dr_grpo"\nobjective.advantageScale = "none"',
    metrics: clipMetrics,
  },
  cispo: {
    title: "cispo: capped weight, every token keeps its gradient",
    source: "MiniMax-M1, arXiv 2506.13585, eq. 4; TRL `loss_type=\"cispo\"`",
    formula: [...ratio, "l_t = -stop_gradient(min(r_t, 1 + epsilonHigh)) A log p(t)", "loss = sum of l_t / number of trained tokens of the step"],
    about: ["Clipping silences a token; here its weight is capped instead, so rare tokens that start a new thought go on being taught. There is no lower bound. TRL's `epsilon_high` is the cap itself: its 5 is `epsilonHigh = 4` here."],
    when: "Several updates per batch or stale samples, where many tokens would be clipped.",
    config: 'objective.kind = "cispo"\nobjective.epsilonHigh = 4',
    metrics: ["ratio/mean", "ratio/max", "clip/high", "kl/behavior", "offpolicy/ess", "entropy"],
  },
  gspo: {
    title: "gspo: one ratio per completion",
    source: "GSPO, arXiv 2507.18071, eq. 5 to 7; TRL `loss_type=\"grpo\"` with `importance_sampling_level=\"sequence\"`",
    formula: ["s = exp(mean over the completion's trained tokens of (log p(t) - log old(t)))", "l = -min(s A, clip(s, 1 - epsilonLow, 1 + epsilonHigh) A)", "loss = mean over completions of l"],
    about: ["The reward judges whole completions, so the ratio does too: it is the geometric mean of the token ratios and stays close to 1. Its bounds are therefore much narrower, 3e-4 and 4e-4 in the paper; a completion is clipped as a whole."],
    when: "Mixture-of-experts models and noisy token ratios.",
    config: 'objective.kind = "gspo"\nobjective.epsilonLow = 3e-4\nobjective.epsilonHigh = 4e-4',
    metrics: clipMetrics,
  },
  gspo_token: {
    title: "gspo_token: the completion's ratio with the token's gradient",
    source: "GSPO, arXiv 2507.18071, section 4.3",
    formula: ["s_t = stop_gradient(s) * p(t) / stop_gradient(p(t)), s as in gspo", "l_t = -min(s_t A, clip(s_t, 1 - epsilonLow, 1 + epsilonHigh) A)", "loss = mean over completions of the mean of l_t"],
    about: ["Equal to `gspo` in value, and in gradient where all tokens of a completion have one advantage."],
    when: "As a base for advantages that differ between tokens; else take `gspo`.",
    config: 'objective.kind = "gspo_token"\nobjective.epsilonLow = 3e-4\nobjective.epsilonHigh = 4e-4',
    metrics: clipMetrics,
  },
  sapo: {
    title: "sapo: a soft gate in place of the clip",
    source: "SAPO, arXiv 2511.20347; TRL `loss_type=\"sapo\"`",
    formula: [...ratio, "l_t = -A (4 / T) sigmoid(T (r_t - 1)), T = sapoTemperaturePositive where A > 0, else sapoTemperatureNegative", "loss = mean over completions of the mean of l_t"],
    about: ["The slope is 1 at a ratio of 1 and fades smoothly on both sides, faster for negative advantages, whose gradient spreads over the whole vocabulary. Nothing is clipped, so clip metrics stay 0."],
    when: "When clipping makes training jumpy.",
    config: 'objective.kind = "sapo"\nobjective.sapoTemperaturePositive = 1.0\nobjective.sapoTemperatureNegative = 1.05',
    metrics: ["ratio/mean", "ratio/max", "kl/behavior", "offpolicy/ess", "entropy"],
  },
  luspo: {
    title: "luspo: gspo with each completion weighted by its length",
    source: "TRL `loss_type=\"luspo\"` with `importance_sampling_level=\"sequence\"`",
    formula: ["s as in gspo", "loss = mean over completions of (number of trained tokens * -min(s A, clip(s, 1 - epsilonLow, 1 + epsilonHigh) A))"],
    about: ["gspo gives a token of a long completion less weight; here the weight comes back. The loss grows with length, so lower the learning rate against `gspo`. `objective.level = \"token\"` takes token ratios, summed per completion."],
    when: "When answers get shorter under `gspo` and should not.",
    config: 'objective.kind = "luspo"\nobjective.epsilonLow = 3e-4\nobjective.epsilonHigh = 4e-4',
    metrics: clipMetrics,
  },
  vespo: {
    title: "vespo: a smooth weight of the completion's ratio",
    source: "TRL `loss_type=\"vespo\"`",
    formula: [
      "w = exp(sum over the completion's trained tokens of (log p(t) - log old(t))), times the correction's token weights",
      "phi = exp(lambda + k log w - lambda w), k and lambda by the sign of A, not differentiated",
      "l_t = -phi A log p(t)",
      "loss = sum of l_t / number of trained tokens of the step",
    ],
    about: ["phi is 1 on-policy and falls towards 0 for completions that became much likelier or unlikelier, so stale completions fade out instead of being cut. A correction enters phi and is not multiplied again; only token corrections can."],
    when: "Asynchronous training with old samples.",
    config: 'objective.kind = "vespo"\nobjective.correction = "token_truncate"',
    metrics: ["ratio/mean", "kl/behavior", "offpolicy/ess", "correction/mean", "correction/max"],
  },
}

export const partPages: Readonly<Record<string, Page>> = {
  advantages: {
    title: "Advantages: from rewards to weights",
    source: "DeepSeekMath eq. 3; RLOO, arXiv 2402.14740; REINFORCE++, arXiv 2501.03262; GDPO (TRL `multi_objective_aggregation`)",
    formula: [
      "group:               A = (R - mean of the group) / (deviation + epsilon); deviation of the group, of the batch, or none (objective.advantageScale)",
      "rloo:                A = R - mean of the group's other members",
      "reinforce++:         A = (R - mean of the batch) / (deviation of the batch + epsilon)",
      "reinforce++baseline: the same, of R less its group's mean",
      "gdpo:                each reward normalised within its group, weighted and summed, then normalised over the batch",
    ],
    about: [
      "R is the weighted sum of a completion's rewards. A reward that does not apply leaves the sum; a failed one is never 0: the completion leaves its group. A group with fewer than two scored completions is dropped.",
      "Deviations: `sample` (n - 1, epsilon 1e-4) as TRL's GRPOTrainer, `population` (n, epsilon 1e-8) as its AsyncGRPOTrainer. A deviation under a millionth of the largest reward is float residue and counts as 0: such a group gets advantages of exactly 0, where dividing by it would give about 1.",
    ],
    when: "`group` is the default. `rloo` or `advantageScale = \"none\"` where easy and hard prompts should not be blown up to the same size; `reinforce++` where groups are small; `gdpo` for several rewards of different scale.",
    config: 'objective.advantage = "rloo"',
    metrics: [],
  },
  clipping: {
    title: "Clipping, level and several steps per batch",
    source: "PPO, arXiv 1707.06347; DAPO (clip-higher); INTELLECT-2, arXiv 2505.07291 (two-sided); decoupled PPO, arXiv 2110.00641",
    formula: ["delta:    l_t = -min(min(r_t, delta) A, clip(r_t, 1 - epsilonLow, 1 + epsilonHigh) A)", "proximal: r_t = p(t) / proximal(t), the trainer's own log-prob before the first optimizer step on the batch"],
    about: [
      "For a negative advantage the plain objective has no bound: a token that became much likelier weighs without limit. `delta` bounds it, above 1 + epsilonHigh.",
      "`objective.level` takes the ratio per token or per completion for kinds that leave the choice. `train.iterations` makes several passes over each batch; with `oldPolicy = \"proximal\"` the clip is around the policy before the first of them, apart from the sampler's, which a correction accounts for.",
    ],
    when: "`delta = 4` with stale samples; `proximal` where sampler and trainer differ in precision, or with several iterations.",
    config: 'objective.delta = 4\nobjective.oldPolicy = "proximal"\ntrain.iterations = 2',
    metrics: ["ratio/mean", "ratio/max", "ratio/saturated", "clip/low", "clip/low_min", "clip/low_max", "clip/high", "clip/high_min", "clip/high_max", "clip/region", "clip/region_min", "clip/region_max"],
  },
  kl: {
    title: "KL to a reference policy",
    source: "Schulman, http://joschu.net/blog/kl-approx.html; TRL `beta`, `use_bias_correction_kl`, `sync_ref_model`",
    formula: ["x = log reference(t) - log p(t)", "k1 = -x    k2 = x^2 / 2    k3 = exp(x) - 1 - x", "loss: l_t + klCoefficient * k (times r_t with klUnbiased)", "reward: R - klCoefficient * sum of k over the completion, from the sampler's log-probs"],
    about: [
      "Nothing is computed at a coefficient of 0. `klUnbiased` weighs the term by the ratio, which makes its gradient that of KL(p || reference), also for samples of an older policy. Without it k1 in the loss does not pull at all (its gradient has expectation 0), k2 has the right gradient on-policy, and k3 that of KL(reference || p).",
      "In the reward it is summed over the completion and lowers its total before the advantages are formed (for the rules of the whole step as for those of a group), with no gradient of its own; `reward/mean` stays the rewards' own, and `kl/completion` is what was taken off, before the coefficient. The reference is then forwarded once more over each step's rows. Not with gdpo, which normalises each reward by itself.",
      "The reference is the starting weights (with `model.lora` the adapter switched off, which takes no memory), or `moving`: every `referenceEverySteps` it becomes referenceMix * policy + (1 - referenceMix) * reference. Checkpoints then hold it, as a model folder `reference`.",
    ],
    when: "To stay close to an instruction-tuned start. Recipes for reasoning leave it out.",
    config: "objective.klCoefficient = 0.04",
    metrics: ["kl/reference", "loss/kl"],
  },
  corrections: {
    title: "Corrections between sampler and trainer",
    source: "TIS (Yao et al. 2025), MIS and geometric masks; TRL `vllm_importance_sampling_mode`; DeepSeek-V3.2, arXiv 2512.02556 (off-policy mask)",
    formula: [
      "g_t = log proximal(t) - log sampler(t)",
      "token_*:        w_t = exp(g_t)      sequence_*: w = exp(sum of g_t)      geometric_mask: w = exp(mean of g_t)",
      "*_truncate:     l_t times w cut to [correctionMin, correctionMax]",
      "*_mask:         l_t times w, or 0 where w is outside; geometric_mask keeps or drops without weighing",
      "off-policy mask: a completion with A < 0 is left out where the mean of (log sampler - log p) exceeds offPolicyThreshold",
    ],
    about: ["Sampler and trainer compute the same policy with other kernels, precision or sampling filters, and the sampler may be steps behind. A correction reweighs for that, apart from the clip, whose ratio is then to the trainer's own log-probs. Weights are never differentiated. How far both are apart is measured also without a correction."],
    when: "Where `logprob_gap/mean` is above 0.01 or `offpolicy/ess` below 0.9. `token_truncate` is the mildest; masks guard against outliers. With top-p, top-k or min-p the sampler's numbers are of another distribution: a correction is advised.",
    config: 'objective.correction = "token_truncate"\nobjective.correctionMax = 2',
    metrics: ["logprob_gap/mean", "logprob_gap/max", "offpolicy/ratio_mean", "offpolicy/ratio_max", "offpolicy/ess", "kl/behavior", "correction/mean", "correction/max", "masked", "behavior/missing"],
  },
  entropy: {
    title: "Entropy bonus and high-entropy tokens",
    source: "Skywork-OR1, arXiv 2505.22312 (adaptive); Wang et al., arXiv 2506.01939 (high-entropy tokens); TRL `entropy_coef`, `top_entropy_quantile`",
    formula: ["loss - entropyCoefficient * mean entropy of the step's trained tokens", "adaptive: after each step the coefficient moves by entropyDelta, up while entropy <= entropyTarget, else down, within [entropyMin, entropyMax]; it acts while the last entropy was at or under the target", "topEntropyShare: l_t = 0 where the token's entropy is under the (1 - share) quantile of the step; divisors stay"],
    about: ["The bonus is a mean over tokens whatever the objective's own mean is, so a coefficient means the same everywhere. With `topEntropyShare` it acts on the same tokens. They are chosen over all trained tokens of the step before each pass, for which the batch is forwarded once more."],
    when: "When `entropy` falls fast and rewards stall.",
    config: "objective.entropyAdaptive = true\nobjective.entropyTarget = 0.2",
    metrics: ["entropy", "loss/entropy_bonus", "masked"],
  },
}
