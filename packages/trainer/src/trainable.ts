// Whether a group can teach anything in this run: known before the window is full, so that another group takes its place.
import type { Sample } from "@cohort/batching"
import type { RunConfig } from "@cohort/config"

/**
 * Why no sample of the group would reach the optimizer; null when some would.
 *
 * @param longest tokens of the longest sample that can be trained
 * @example
 * const reason = refusalOf(config, planner.longest, group)
 * if (reason !== null) worker.release(group.occurrence, reason)
 */
export function refusalOf({ objective }: Pick<RunConfig, "objective">, longest: number, group: { readonly samples: readonly Pick<Sample, "tokenIds" | "truncated">[] }): "over_token_budget" | "all_truncated" | null {
  const fitting = group.samples.filter(({ tokenIds }) => tokenIds.length <= longest)
  if (fitting.length === 0) return "over_token_budget"
  return objective.maskTruncated && fitting.every(({ truncated }) => truncated) ? "all_truncated" : null
}
