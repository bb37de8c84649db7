// Options of the optimizer, the batch and the length of a run.
import type { JsonValue } from "../json.ts"
import { inOurSteps, numberOf, refuse, same, sameOrNone, type TrlFacts, type TrlRow, type TrlSetting, words } from "./row.ts"

const stepsOf = ({ values }: TrlFacts): number | undefined => (numberOf(values["max_steps"]) > 0 ? numberOf(values["max_steps"]) : undefined)

/** Transformers counts a number under 1 as a share of the steps. */
function stepsOrShare(path: string, value: JsonValue, facts: TrlFacts): ReturnType<TrlRow["answer"]> {
  const number = numberOf(value)
  if (Number.isInteger(number)) return [inOurSteps(path, number, facts)]
  const steps = stepsOf(facts)
  return steps === undefined ? refuse(`a share of the steps, which are not known without max_steps: set ${path}`) : [inOurSteps(path, Math.ceil(number * steps), facts)]
}

/** Completions of one optimizer step, rounded up to whole groups. */
function completionsPerStep({ values, processes, trainer }: TrlFacts): TrlSetting[] {
  const groupSize = numberOf(values["num_generations"])
  const counted = numberOf(values["per_device_train_batch_size"]) * numberOf(values["gradient_accumulation_steps"]) * processes
  const value = Math.ceil(counted / groupSize) * groupSize
  const rounded = value === counted ? [] : [`${counted} rounded up to whole groups of ${groupSize}`]
  const dynamic = trainer === "async" && !(numberOf(values["token_budget"]) <= 0) ? ["TRL's token budget makes this number vary; here it is exact"] : []
  const notes = [...rounded, ...dynamic]
  return [{ path: "train.completionsPerStep", value, ...(notes.length === 0 ? {} : { note: notes.join("; ") }) }]
}

const batchCell = "`train.completionsPerStep` = per_device_train_batch_size * gradient_accumulation_steps * processes, in whole groups"

/** Optimizer steps that one generation of the synchronous trainer feeds, less one: the age its last samples have. */
function generationAge({ values, processes }: TrlFacts): TrlSetting[] {
  const accumulation = numberOf(values["gradient_accumulation_steps"])
  const batch = numberOf(values["per_device_train_batch_size"]) * processes
  const generated = values["generation_batch_size"] === null ? values["steps_per_generation"] : numberOf(values["generation_batch_size"]) / batch
  const steps = generated === null ? accumulation : numberOf(generated)
  return [{ path: "staleness.maxSteps", value: Math.max(0, Math.ceil(steps / accumulation) - 1), note: "the synchronous trainer generates and trains in turns" }]
}

const ageCell = "`staleness.maxSteps` = optimizer steps per generation - 1"

export const optimizerRows: readonly TrlRow[] = [
  same("learning_rate", "train.learningRate", 1e-5),
  words("lr_scheduler_type", "train.schedule", "cosine", { constant: "constant", constant_with_warmup: "constant", linear: "linear", cosine: "cosine" }),
  { option: "warmup_steps", becomes: "`train.warmupSteps`; a number under 1 is a share of max_steps", example: 5, answer: (value, facts) => stepsOrShare("train.warmupSteps", value, facts) },
  {
    option: "warmup_ratio",
    becomes: "`train.warmupSteps` = ratio * max_steps",
    example: 0.1,
    beside: { max_steps: 50 },
    answer: (value, facts) => (value === null || value === 0 ? [] : stepsOrShare("train.warmupSteps", value, facts)),
  },
  { option: "max_steps", becomes: "`train.steps`, divided by num_iterations: TRL counts each pass over a batch", example: 50, beside: { num_iterations: 2 }, answer: (value, facts) => (numberOf(value) > 0 ? [inOurSteps("train.steps", numberOf(value), facts)] : []) },
  {
    option: "num_train_epochs",
    becomes: "not mapped without max_steps: `train.steps` = epochs * prompts * num_generations / completionsPerStep",
    example: 2,
    answer: (_, facts) =>
      stepsOf(facts) === undefined ? { reason: "the number of prompts is not in these options: set train.steps to epochs * prompts / prompts per step", always: true } : [],
  },
  same("weight_decay", "train.weightDecay", 0.1),
  same("adam_beta1", "train.beta1", 0.8),
  same("adam_beta2", "train.beta2", 0.99),
  same("adam_epsilon", "train.adamEpsilon", 1e-6),
  {
    option: "max_grad_norm",
    becomes: "`train.maxGradNorm`; 0, no clipping, is not taken",
    example: 0.2,
    answer: (value) => (numberOf(value) > 0 ? [{ path: "train.maxGradNorm", value }] : refuse("gradients are always clipped: set train.maxGradNorm high")),
  },
  {
    option: "optim",
    becomes: "AdamW, in whatever implementation, is the optimizer",
    example: "adamw_torch",
    answer: (value) => (typeof value === "string" && /^adamw_(torch|hf|apex)/.test(value) ? [] : refuse(`the optimizer is AdamW, not ${String(value)}`)),
  },
  { option: "per_device_train_batch_size", becomes: batchCell, example: 16, answer: (_, facts) => completionsPerStep(facts) },
  { option: "gradient_accumulation_steps", becomes: batchCell, example: 4, answer: (_, facts) => completionsPerStep(facts) },
  { option: "steps_per_generation", becomes: ageCell, example: 4, beside: { gradient_accumulation_steps: 2 }, answer: (_, facts) => generationAge(facts) },
  { option: "generation_batch_size", becomes: ageCell, example: 32, answer: (_, facts) => generationAge(facts) },
  same("num_iterations", "train.iterations", 2),
  {
    option: "token_budget",
    becomes: "`train.tokenBudget`; null is auto, fixed-count mode (0 or less) is `train.samplesPerBatch` = per_device_train_batch_size",
    example: 8192,
    answer: (value, { values }) => {
      if (value === null) return []
      return numberOf(value) > 0 ? [{ path: "train.tokenBudget", value }] : [{ path: "train.samplesPerBatch", value: numberOf(values["per_device_train_batch_size"]) }]
    },
  },
  {
    option: "save_steps",
    becomes: "`train.checkpointEverySteps`; a number under 1 is a share of max_steps",
    example: 20,
    answer: (value, facts) => (facts.values["save_strategy"] === "steps" ? stepsOrShare("train.checkpointEverySteps", value, facts) : []),
  },
  {
    option: "save_strategy",
    becomes: "no sets `train.checkpointEverySteps` to 0; steps is the only other way",
    example: "no",
    answer: (value) => (value === "no" ? [{ path: "train.checkpointEverySteps", value: 0, note: "one is still written at the end" }] : value === "steps" ? [] : refuse("checkpoints are counted in steps: set train.checkpointEverySteps")),
  },
  sameOrNone("save_total_limit", "train.keepCheckpoints", 2),
]
