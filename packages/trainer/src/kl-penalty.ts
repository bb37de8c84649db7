// KL to the reference as a part of the reward: known before the advantages, so one forward pass of the reference over the window's rows.
import { trainedPlaces } from "@cohort/batching"
import { completionKl } from "@cohort/loss"
import type { SampleGroup } from "@cohort/rollout"
import type { LoopOptions } from "./loop.ts"

/**
 * KL(sampler || reference) of each rollout, nats, summed over the trained tokens of all its rows, by rollout id. A rollout without a row within the budget has none.
 * The sampler's own log-probs are the policy's: the tokens are samples of that one, whatever was trained since.
 *
 * @throws CohortError `numeric` when the reference gives no number
 */
export async function klOfRollouts({ config, backend, planner }: Pick<LoopOptions, "config" | "backend" | "planner">, groups: readonly SampleGroup[]): Promise<ReadonlyMap<string, number>> {
  const { microBatches, kept } = planner.plan(groups.flatMap(({ samples }) => samples))
  const rolloutOf = new Map(kept.map(({ id, rolloutId }) => [id, rolloutId]))
  const sums = new Map<string, number>()
  for (const batch of microBatches) {
    const rows = await backend.logProbs(batch, "reference", config.rollout.temperature)
    for (const [index, places] of trainedPlaces(batch).entries()) {
      const rolloutId = rolloutOf.get(batch.sampleIds[index]!)!
      const tokens = {
        policy: places.map((at) => batch.behaviorLogProbs[at]!),
        reference: places.map((at) => rows[Math.floor(at / batch.length)]![at % batch.length]!),
        mask: places.map(() => 1),
      }
      sums.set(rolloutId, (sums.get(rolloutId) ?? 0) + completionKl(tokens, config.objective.klEstimator))
    }
  }
  return sums
}
