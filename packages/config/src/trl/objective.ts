// Options of rewards, advantages and the loss.
import type { JsonValue } from "../json.ts"
import { inOurSteps, numberOf, refuse, same, sameOrNone, type TrlFacts, type TrlRow, type TrlSetting, words } from "./row.ts"

/** A correction needs numbers of a sampler apart from the trainer. */
const corrects = ({ values }: TrlFacts): boolean => values["use_vllm"] === true && values["vllm_importance_sampling_correction"] === true

/** TRL's epsilon_high is cispo's cap itself, else an excess over 1 that falls back to epsilon. */
function epsilonHigh({ values }: TrlFacts): ReturnType<TrlRow["answer"]> {
  const high = numberOf(values["epsilon_high"] ?? values["epsilon"])
  if (values["loss_type"] !== "cispo") return [{ path: "objective.epsilonHigh", value: high }]
  return high >= 1 ? [{ path: "objective.epsilonHigh", value: Number((high - 1).toPrecision(12)), note: "an excess over 1 here" }] : refuse(`a cap of ${high} on cispo's ratio scales every token down: set objective.epsilonHigh to the cap less 1`)
}

/** Kind and level together: TRL's gspo is grpo with a ratio per sequence. */
function kindOf({ values }: TrlFacts): ReturnType<TrlRow["answer"]> {
  const kind = String(values["loss_type"] ?? "dapo")
  const level = values["importance_sampling_level"] ?? "token"
  if (kind === "grpo" && level === "sequence") return [{ path: "objective.kind", value: "gspo" }]
  if (kind === "vespo" && level === "sequence") return refuse("vespo has a ratio of its own")
  const own = kind === "luspo" ? "sequence" : "token"
  return [{ path: "objective.kind", value: kind }, ...(level === own ? [] : [{ path: "objective.level", value: level }])]
}

const kindCell = "`objective.kind`, and `objective.level` where it is not the kind's own; grpo per sequence is gspo"
const afterCorrection = (option: string, path: string, example: JsonValue): TrlRow => ({
  option,
  becomes: `\`${path}\`, where use_vllm and vllm_importance_sampling_correction are true`,
  example,
  beside: { use_vllm: true },
  answer: (value, facts) => (value === null || !corrects(facts) ? [] : [{ path, value }]),
})
const withKl = (option: string, path: string, example: JsonValue, convert: (value: JsonValue, facts: TrlFacts) => TrlSetting): TrlRow => ({
  option,
  becomes: `\`${path}\`, where sync_ref_model is true`,
  example,
  beside: { sync_ref_model: true, beta: 0.1 },
  answer: (value, facts) => (facts.values["sync_ref_model"] === true ? [convert(value, facts)] : []),
})

export const objectiveRows: readonly TrlRow[] = [
  { option: "loss_type", becomes: kindCell, example: "dr_grpo", answer: (_, facts) => kindOf(facts) },
  { option: "importance_sampling_level", becomes: kindCell, example: "sequence", beside: { loss_type: "grpo" }, answer: (_, facts) => kindOf(facts) },
  { option: "epsilon", becomes: "`objective.epsilonLow`, and `objective.epsilonHigh` without epsilon_high", example: 0.1, answer: (value, facts) => {
    const high = epsilonHigh(facts)
    return [{ path: "objective.epsilonLow", value }, ...("reason" in high ? [] : high)]
  } },
  { option: "epsilon_high", becomes: "`objective.epsilonHigh`; for cispo less 1, since TRL's is the cap itself", example: 0.28, answer: (_, facts) => epsilonHigh(facts) },
  sameOrNone("delta", "objective.delta", 4),
  same("beta", "objective.klCoefficient", 0.04),
  same("use_bias_correction_kl", "objective.klUnbiased", false),
  { option: "sync_ref_model", becomes: "`objective.reference`: true is moving", example: true, beside: { beta: 0.1 }, answer: (value) => [{ path: "objective.reference", value: value === true ? "moving" : "start" }] },
  withKl("ref_model_mixup_alpha", "objective.referenceMix", 0.5, (value) => ({ path: "objective.referenceMix", value })),
  withKl("ref_model_sync_steps", "objective.referenceEverySteps", 64, (value, facts) => inOurSteps("objective.referenceEverySteps", numberOf(value), facts)),
  {
    option: "scale_rewards",
    becomes: "`objective.advantageScale`; true is group, false is none",
    example: "batch",
    answer: (value, { values }) => {
      if (values["multi_objective_aggregation"] === "normalize_then_sum") return []
      return [{ path: "objective.advantageScale", value: value === true ? "group" : value === false ? "none" : value }]
    },
  },
  words("multi_objective_aggregation", "objective.advantage", "normalize_then_sum", { sum_then_normalize: "group", normalize_then_sum: "gdpo" }),
  {
    option: "reward_weights",
    becomes: "`rewards[].weight`, in the order of reward_funcs",
    example: [1, 0.5],
    beside: { reward_funcs: ["accuracy_reward", "think_format_reward"] },
    answer: (value, { values }) => (value === null || Array.isArray(values["reward_funcs"]) ? [] : refuse("rewards are not among these options: give each its weight in rewards")),
  },
  same("mask_truncated_completions", "objective.maskTruncated", true),
  same("top_entropy_quantile", "objective.topEntropyShare", 0.2),
  same("entropy_coef", "objective.entropyCoefficient", 0.001),
  same("use_adaptive_entropy", "objective.entropyAdaptive", true),
  same("entropy_coef_min", "objective.entropyMin", 0.001),
  same("entropy_coef_max", "objective.entropyMax", 0.5),
  same("entropy_coef_delta", "objective.entropyDelta", 0.001),
  same("entropy_target", "objective.entropyTarget", 0.3),
  {
    option: "vllm_importance_sampling_correction",
    becomes: "`objective.correction`: false is none",
    example: false,
    beside: { use_vllm: true },
    answer: (_, facts) => (corrects(facts) ? [] : [{ path: "objective.correction", value: "none" }]),
  },
  afterCorrection("vllm_importance_sampling_mode", "objective.correction", "token_truncate"),
  {
    ...afterCorrection("vllm_importance_sampling_clip_max", "objective.correctionMax", 2),
    becomes: "`objective.correctionMax`, where use_vllm and vllm_importance_sampling_correction are true; null, no bound, is a number that no weight reaches",
    answer: (value, facts) => (corrects(facts) ? [value === null ? { path: "objective.correctionMax", value: 1e30, note: "no upper bound" } : { path: "objective.correctionMax", value }] : []),
  },
  afterCorrection("vllm_importance_sampling_clip_min", "objective.correctionMin", 0.5),
  afterCorrection("vllm_importance_sampling_cap", "objective.correctionMax", 2.5),
  sameOrNone("off_policy_mask_threshold", "objective.offPolicyThreshold", 0.5),
  same("sapo_temperature_pos", "objective.sapoTemperaturePositive", 1.5),
  same("sapo_temperature_neg", "objective.sapoTemperatureNegative", 2),
  same("vespo_k_pos", "objective.vespoKPositive", 1),
  same("vespo_lambda_pos", "objective.vespoLambdaPositive", 2),
  same("vespo_k_neg", "objective.vespoKNegative", 2),
  same("vespo_lambda_neg", "objective.vespoLambdaNegative", 1),
]
