// Refuses a malformed sample where it enters training, by name: arrays that disagree would train the wrong tokens silently.
import { CohortError } from "@cohort/errors"
import type { Sample } from "./sample.ts"

/**
 * @throws CohortError `internal` for arrays of unequal length, an empty sample, a mask that is not 0/1 or trains the first token;
 *   `numeric` for a non-finite advantage or weight, or an infinite or positive behaviour log-prob (NaN means "none was given").
 */
export function checkSample(sample: Sample): void {
  const { tokenIds, lossMask, behaviorLogProbs, versions } = sample
  const length = tokenIds.length
  if (length === 0) refuse(sample, "internal", "has no tokens")
  for (const [name, array] of Object.entries({ lossMask, behaviorLogProbs, versions }))
    if (array.length !== length) refuse(sample, "internal", `${name} has ${array.length} entries for ${length} tokens`)
  if (lossMask[0] !== 0) refuse(sample, "internal", "trains its first token, which no token predicts")
  for (let index = 0; index < length; index++) {
    const mask = lossMask[index]!
    if (mask > 1) refuse(sample, "internal", `lossMask[${index}] is ${mask}, not 0 or 1`)
    const logProb = behaviorLogProbs[index]!
    if (mask === 1 && (logProb === -Infinity || logProb > LARGEST_LOG_PROB))
      refuse(sample, "numeric", `behaviorLogProbs[${index}] is ${logProb}`)
  }
  if (!Number.isFinite(sample.advantage)) refuse(sample, "numeric", `advantage is ${sample.advantage}`)
  if (!Number.isFinite(sample.weight) || sample.weight < 0) refuse(sample, "numeric", `weight is ${sample.weight}`)
}

/** Servers round near-certain tokens to slightly above 0. */
const LARGEST_LOG_PROB = 1e-3

function refuse(sample: Sample, code: "internal" | "numeric", problem: string): never {
  throw new CohortError(code, `sample ${sample.id} ${problem}`, {
    hint: "The rollout worker that made it is at fault; drop the sample or fix the worker.",
    details: { sampleId: sample.id, rolloutId: sample.rolloutId },
  })
}
