// Settings that work, and seldom do what was wanted.
import type { RunConfig } from "./schema.ts"

export interface ConfigWarning {
  readonly path: string
  readonly message: string
}

/** Warnings of a valid config; a run may start with them. */
export function configWarnings(config: RunConfig): readonly ConfigWarning[] {
  const { train, data, rollout, transfer, inference, staleness, objective } = config
  const warnings: ConfigWarning[] = []
  // The last token of a completion is not forwarded.
  const longest = data.maxPromptTokens + rollout.maxCompletionTokens - 1
  if (train.tokenBudget !== "auto" && train.tokenBudget < longest)
    warnings.push({
      path: "train.tokenBudget",
      message: `${train.tokenBudget} tokens are fewer than the longest row, ${data.maxPromptTokens} + ${rollout.maxCompletionTokens} - 1 = ${longest}; longer rows are dropped, and counted.`,
    })
  if (transfer.kind === "none" && !inference.colocated)
    warnings.push({
      path: "transfer.kind",
      message: `The servers keep the starting weights, so samples pass staleness.maxSteps = ${staleness.maxSteps} after as many steps.`,
    })
  const truncated = [rollout.topP < 1 && "topP", rollout.topK > 0 && "topK", rollout.minP > 0 && "minP", rollout.repetitionPenalty !== 1 && "repetitionPenalty"]
  for (const name of truncated.filter((name) => name !== false))
    warnings.push({
      path: `rollout.${name}`,
      message: "The sampler then draws from another distribution than the trainer computes, which moves the probability ratio away from 1.",
    })
  if (objective.level === "sequence" && TOKEN_MEANS.includes(objective.kind))
    warnings.push({ path: "objective.level", message: `A ratio per completion with ${objective.kind}'s mean over tokens gives long completions more weight; objective.kind = "gspo" gives each the same.` })
  if (objective.klCoefficient > 0 && objective.klIn === "loss" && objective.klEstimator === "k1" && !objective.klUnbiased)
    warnings.push({ path: "objective.klEstimator", message: "Without objective.klUnbiased the gradient of k1 in the loss is 0 in expectation, so nothing pulls towards the reference: set that, or take k2 or k3." })
  return warnings
}

/** Kinds that divide by tokens. */
const TOKEN_MEANS = ["dapo", "bnpo", "cispo"]
