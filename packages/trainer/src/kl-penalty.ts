// KL to the reference as a part of the reward: known before the advantages, so one forward pass of the reference over the window's rows.
import { collate, planBatches } from "@cohort/batching"
import { completionKl } from "@cohort/loss"
import type { SampleGroup } from "@cohort/rollout"
import type { LoopOptions } from "./loop.ts"

/**
 * KL(sampler || reference) of each rollout, nats, summed over the trained tokens of all its rows, by rollout id. A rollout of which no row fits the shapes has none.
 * The sampler's own log-probs are the policy's: the tokens are samples of that one, whatever was trained since.
 *
 * @throws CohortError `numeric` when the reference gives no number
 */
export async function klOfRollouts({ config, backend, shapes }: Pick<LoopOptions, "config" | "backend" | "shapes">, groups: readonly SampleGroup[]): Promise<ReadonlyMap<string, number>> {
  const { batches } = planBatches(groups.flatMap(({ samples }) => samples), { buckets: shapes })
  const sums = new Map<string, number>()
  for (const { samples, shape } of batches) {
    const rows = await backend.logProbs(collate(samples, shape), "reference", config.rollout.temperature)
    for (const [row, { rolloutId, tokenIds, behaviorLogProbs, lossMask }] of samples.entries()) {
      const tokens = { policy: behaviorLogProbs, reference: rows[row]!.subarray(0, tokenIds.length), mask: lossMask }
      sums.set(rolloutId, (sums.get(rolloutId) ?? 0) + completionKl(tokens, config.objective.klEstimator))
    }
  }
  return sums
}
