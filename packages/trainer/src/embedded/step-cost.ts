// What a step of the embedded backend costs, by the size of the model: how micro-batches are cut follows from it.
import type { CostModel } from "@cohort/batching"
import type { ModelConfig } from "@cohort/model"

// Measured with XLA on two cores, models of 0.8 M and 29 M parameters, rows of 16 to 1,024 tokens: nanoseconds of forward and backward.
const perParameter = 0.04
const perScore = 6
const perScoreElement = 0.12
const compileNs = 3e9
/** Call, metrics, and the sum of gradients. */
const perBatch = 64

/**
 * Cost model of the planner, in tokens: a token's own work follows the parameters; its attention the scores, one per key and head, with passes over
 * them beside the products.
 *
 * @example
 * stepCost(policy.config, policy.parameters).attentionLength // 203 for the quickstart's model: at rows of 203 tokens attention costs what all the rest does
 */
export function stepCost(config: Pick<ModelConfig, "layers" | "heads" | "headDim">, parameters: number): CostModel {
  const tokenNs = perParameter * parameters
  const scoreNs = config.layers * config.heads * (perScore + perScoreElement * config.headDim)
  return { attentionLength: tokenNs / scoreNs, perBatch, perShape: compileNs / tokenNs }
}
