// Options of the model, the data, logging and evaluation; and the few of TRL's command line that name model, data and rewards.
import { isPlainObject } from "../json.ts"
import { inOurSteps, numberOf, refuse, same, sameOrNone, type TrlFacts, type TrlRefusal, type TrlRow, type TrlSetting } from "./row.ts"

/** Weights are held in float32 always; a dtype of the model says what products may be rounded to. */
const precisions: Readonly<Record<string, string>> = { float32: "f32", bfloat16: "mixed", auto: "auto" }
const precisionOf = (dtype: unknown, { values }: TrlFacts): readonly TrlSetting[] | TrlRefusal => {
  const value = precisions[String(dtype)]
  if (value === undefined) return refuse(`backend.precision takes the place of ${Object.keys(precisions).join(", ")}`)
  // bf16 has the word.
  return values["bf16"] === true ? [] : [{ path: "backend.precision", value }]
}
/** Rewards of TRL that come with Cohort. */
const rewards: Readonly<Record<string, string>> = { accuracy_reward: "math", think_format_reward: "format" }
const trackers = ["tensorboard", "wandb", "mlflow"]

export const runRows: readonly TrlRow[] = [
  sameOrNone("output_dir", "runDir", "out"),
  sameOrNone("run_name", "name", "first"),
  same("seed", "seed", 7),
  same("shuffle_dataset", "data.shuffle", false),
  { option: "dtype", becomes: "`backend.precision`, unless bf16 is true: float32 is f32, bfloat16 is mixed, auto; weights are held in float32", example: "bfloat16", answer: precisionOf },
  {
    option: "model_init_kwargs",
    becomes: "its dtype is that of `dtype`; others are not taken",
    example: { dtype: "bfloat16" },
    answer: (value, facts) => {
      if (!isPlainObject(value)) return []
      const others = Object.keys(value).filter((name) => name !== "dtype" && name !== "torch_dtype")
      if (others.length > 0) return refuse(`models load without ${others.join(", ")}`)
      return precisionOf(value["dtype"] ?? value["torch_dtype"], facts)
    },
  },
  { option: "bf16", becomes: "`backend.precision`: true is mixed", example: true, answer: (value) => (value === true ? [{ path: "backend.precision", value: "mixed" }] : []) },
  { option: "logging_steps", becomes: "`tracking.logEverySteps`", example: 5, answer: (value, facts) => (numberOf(value) >= 1 ? [inOurSteps("tracking.logEverySteps", numberOf(value), facts)] : refuse("counted in steps: set tracking.logEverySteps")) },
  {
    option: "report_to",
    becomes: "`tracking.trackers`: tensorboard, wandb, mlflow, beside the JSON lines that are always written",
    example: ["tensorboard"],
    answer: (value) => {
      const names = [value].flat().filter((name) => name !== "none" && name !== null).map(String)
      const others = names.filter((name) => !trackers.includes(name))
      if (others.length > 0) return refuse(`there is no tracker for ${others.join(", ")}: name them in tracking.trackers where a plugin has one`)
      return names.length === 0 ? [] : [{ path: "tracking.trackers", value: ["jsonl", ...names] }]
    },
  },
  {
    option: "eval_strategy",
    becomes: "with steps, `eval.everySteps` from eval_steps; no is 0",
    example: "steps",
    beside: { eval_steps: 25 },
    answer: (value, facts) => {
      if (value === "no") return []
      if (value !== "steps") return refuse("evaluations are counted in steps: set eval.everySteps")
      const { values } = facts
      return [{ note: "data.evalSource names the prompts", ...inOurSteps("eval.everySteps", numberOf(values["eval_steps"] ?? values["logging_steps"] ?? 1), facts) }]
    },
  },
  { option: "eval_steps", becomes: "`eval.everySteps`, with eval_strategy steps", example: 10, beside: { eval_strategy: "steps" }, answer: (value, facts) => (value === null || facts.values["eval_strategy"] !== "steps" ? [] : [inOurSteps("eval.everySteps", numberOf(value), facts)]) },
  sameOrNone("model_name_or_path", "model.path", "Qwen/Qwen3-0.6B"),
  sameOrNone("dataset_name", "data.source", "trl-lib/DeepMath-103K"),
  {
    option: "reward_funcs",
    becomes: "`rewards`: accuracy_reward is math, think_format_reward is format",
    example: ["accuracy_reward"],
    answer: (value, { values }) => {
      const names = [value].flat().filter((name) => name !== null).map(String)
      const others = names.filter((name) => rewards[name] === undefined)
      if (others.length > 0) return refuse(`${others.join(", ")}: write it as a reward plugin and name it in rewards`)
      const weights = values["reward_weights"]
      return [{ path: "rewards", value: names.map((name, index) => ({ use: rewards[name]!, weight: Array.isArray(weights) ? numberOf(weights[index]) : 1 })) }]
    },
  },
]
