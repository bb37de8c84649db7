// Rules that join several settings. Each names the keys it reads, so that it is skipped where one of them is already wrong.
import { objectiveRules } from "./objective-rule.ts"
import type { Rule } from "./rule-type.ts"

export type { Rule }

const isFile = (source: string): boolean => /\.(jsonl|parquet)$/i.test(source)

/** Divisors of `n` of at least 2, ascending. */
export function groupSizesOf(n: number): number[] {
  const sizes: number[] = []
  for (let d = 1; d * d <= n; d++) {
    if (n % d !== 0) continue
    sizes.push(d)
    if (d * d !== n) sizes.push(n / d)
  }
  return sizes.filter((d) => d >= 2).toSorted((a, b) => a - b)
}

/** The three numbers closest to `n`, ascending. */
const nearest = (numbers: readonly number[], n: number): number[] =>
  numbers.toSorted((a, b) => Math.abs(a - n) - Math.abs(b - n)).slice(0, 3).toSorted((a, b) => a - b)

export const rules: readonly Rule[] = [
  {
    reads: ["train.completionsPerStep", "rollout.groupSize"],
    check: ({ train: { completionsPerStep }, rollout: { groupSize } }) => {
      if (completionsPerStep % groupSize === 0) return undefined
      const below = Math.floor(completionsPerStep / groupSize) * groupSize
      const batches = [below, below + groupSize].filter((n) => n > 0).join(" or ")
      return {
        expected: `a multiple of rollout.groupSize = ${groupSize}`,
        fix: `Set train.completionsPerStep to ${batches}, or rollout.groupSize to ${nearest(groupSizesOf(completionsPerStep), groupSize).join(" or ")}.`,
      }
    },
  },
  {
    reads: ["train.samplesPerBatch", "train.tokenBudget", "train.packing"],
    check: ({ train: { samplesPerBatch, tokenBudget, packing } }) => {
      if (samplesPerBatch === undefined) return undefined
      if (tokenBudget !== "auto") return { expected: "nothing beside train.tokenBudget", fix: "A micro-batch is limited by tokens or by completions: leave one of the two out." }
      return packing === "packed" ? { expected: 'nothing with train.packing = "packed"', fix: "A fixed number of completions has a row each: leave train.packing out, or limit tokens with train.tokenBudget." } : undefined
    },
  },
  ...objectiveRules,
  {
    reads: ["rollout.temperature", "rollout.groupSize"],
    check: ({ rollout: { temperature, groupSize } }) =>
      temperature > 0
        ? undefined
        : { expected: "above 0", fix: `At temperature 0 the ${groupSize} completions of a group are equal, so every advantage is 0. Use 1, or set eval.temperature if evaluation was meant.` },
  },
  {
    reads: ["inference.maxModelLength", "data.maxPromptTokens", "rollout.maxCompletionTokens"],
    check: ({ inference: { maxModelLength }, data: { maxPromptTokens }, rollout: { maxCompletionTokens } }) => {
      const needed = maxPromptTokens + maxCompletionTokens
      if (maxModelLength === "auto" || needed <= maxModelLength) return undefined
      return {
        expected: `at least data.maxPromptTokens + rollout.maxCompletionTokens = ${maxPromptTokens} + ${maxCompletionTokens} = ${needed}`,
        fix: `Raise inference.maxModelLength to ${needed}, or shorten prompts or completions by ${needed - maxModelLength} tokens.`,
      }
    },
  },
  {
    reads: ["train.warmupSteps", "train.steps"],
    check: ({ train: { warmupSteps, steps } }) =>
      warmupSteps <= steps ? undefined : { expected: `at most train.steps = ${steps}`, fix: "The learning rate would never reach its peak: lower train.warmupSteps, or raise train.steps." },
  },
  {
    reads: ["staleness.weightSyncSteps", "staleness.maxSteps"],
    check: ({ staleness: { weightSyncSteps, maxSteps } }) =>
      weightSyncSteps <= maxSteps + 1
        ? undefined
        : { expected: `at most staleness.maxSteps + 1 = ${maxSteps + 1}`, fix: `Just before a sync samples are ${weightSyncSteps - 1} steps old, which staleness.maxSteps = ${maxSteps} refuses: sync more often, or allow more.` },
  },
  {
    reads: ["rollout.oversampling", "staleness.policy"],
    check: ({ rollout: { oversampling }, staleness: { policy } }) =>
      oversampling === 1 || policy === "pace"
        ? undefined
        : { expected: `1 with staleness.policy = "${policy}"`, fix: 'Without pacing as many groups start as the servers take, so there is nothing to add to: set staleness.policy to "pace", or rollout.oversampling to 1.' },
  },
  {
    reads: ["transfer.kind", "model.lora", "inference.kind"],
    check: ({ transfer, model: { lora }, inference }) => {
      if (transfer.kind !== "lora") return undefined
      if (lora === undefined) return { expected: "another kind without model.lora", fix: "There is no adapter to send: set model.lora, or transfer.kind to sharedMemory or filesystem." }
      return inference.kind === "vllm" ? undefined : { expected: 'another kind with inference.kind other than "vllm"', fix: "Adapters are loaded into vLLM only: other engines get the weights with the adapter merged in, through sharedMemory or filesystem." }
    },
  },
  {
    reads: ["inference.urls", "inference.kind"],
    check: ({ inference: { urls, kind } }) => {
      if (kind !== "embedded" && urls.length === 0)
        return { expected: `at least one address with inference.kind = "${kind}"`, fix: 'Give the servers you started, as ["http://localhost:8000"].' }
      return new Set(urls).size === urls.length ? undefined : { expected: "different addresses", fix: "Name each server once." }
    },
  },
  {
    reads: ["inference.colocated", "inference.kind", "inference.urls"],
    check: ({ inference: { colocated, kind, urls } }) =>
      !colocated || (kind === "embedded" && urls.length === 0)
        ? undefined
        : { expected: "false with servers of your own", fix: 'Only the embedded engine shares the trainer\'s weights: set inference.kind to "embedded" without urls, or inference.colocated to false.' },
  },
  {
    reads: ["environments"],
    check: ({ environments }) => {
      const names = environments.map(({ name }) => name)
      const twice = names.find((name, at) => names.indexOf(name) !== at)
      return twice === undefined ? undefined : { expected: `different names, "${twice}" is there twice`, fix: "Rows choose by this name: give each environment its own." }
    },
  },
  {
    reads: ["rewards", "environment", "environments", "data.source"],
    check: ({ rewards, environment, environments, data: { source } }) =>
      rewards.length > 0 || environment !== undefined || environments.length > 0 || !isFile(source)
        ? undefined
        : { expected: "at least one reward", fix: "Rows of a file come without a reward: name one in rewards, or an environment that scores." },
  },
  {
    reads: ["rewards"],
    check: ({ rewards }) =>
      rewards.length === 0 || rewards.some((reward) => reward.weight !== 0)
        ? undefined
        : { expected: "a weight other than 0", fix: "With every weight at 0 all advantages are 0." },
  },
  {
    reads: ["eval.everySteps", "data.evalSource", "data.source"],
    check: ({ eval: { everySteps }, data: { evalSource, source } }) =>
      everySteps === 0 || evalSource !== undefined || !isFile(source)
        ? undefined
        : { expected: "0 without data.evalSource", fix: "Name the evaluation prompts in data.evalSource." },
  },
  {
    reads: ["eval.samples", "eval.temperature"],
    check: ({ eval: { samples, temperature } }) =>
      samples === 1 || temperature > 0
        ? undefined
        : { expected: "1 at eval.temperature = 0", fix: `The ${samples} greedy completions of a prompt are equal: raise eval.temperature, or take one sample.` },
  },
]
