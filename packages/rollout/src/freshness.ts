// How old the training data is. Age of a sample = version being trained - oldest version that generated one of its trained tokens;
// every figure weighs a sample by its trained tokens.
import type { Sample } from "@cohort/batching"
import { oldestVersionOf, trainedTokensOf } from "./group-samples.ts"
import type { VersionedTokens } from "./protocol.ts"

export interface Freshness {
  /** Trained tokens with a known version. */
  readonly tokens: number
  /** Trained tokens whose version is unknown: shown, never counted as age 0. */
  readonly unknownTokens: number
  /** Ages in optimizer steps; null without tokens. */
  readonly mean: number | null
  readonly p50: number | null
  readonly p95: number | null
  readonly p99: number | null
  readonly max: number | null
  /** Share of the tokens per age, ascending ages; the shares add up to 1. */
  readonly shareByAge: readonly { readonly age: number; readonly share: number }[]
}

/** Staleness of a sample when `version` is being trained; null when its version is unknown. */
export function ageOf(sample: Sample, version: number): number | null {
  const oldest = oldestVersionOf(sample)
  return oldest < 0 ? null : version - oldest
}

/**
 * Freshness of samples at `version`: of a step's batch, or of what waits in the queue.
 *
 * @example
 * freshnessOf(groups.flatMap((group) => group.samples), 8).p95 // 2
 */
export function freshnessOf(samples: readonly Sample[], version: number): Freshness {
  return freshnessOfTokens(samples.map((sample) => ({ oldestVersion: oldestVersionOf(sample), trainedTokens: trainedTokensOf(sample) })), version)
}

/** The same of what a worker says about its queue. */
export function freshnessOfTokens(samples: readonly VersionedTokens[], version: number): Freshness {
  const tokensByAge = new Map<number, number>()
  let unknownTokens = 0
  for (const { oldestVersion, trainedTokens } of samples) {
    if (trainedTokens === 0) continue
    const age = version - oldestVersion
    if (oldestVersion < 0) unknownTokens += trainedTokens
    else tokensByAge.set(age, (tokensByAge.get(age) ?? 0) + trainedTokens)
  }
  const ages = [...tokensByAge].map(([value, weight]) => ({ value, weight })).toSorted((a, b) => a.value - b.value)
  const tokens = ages.reduce((sum, { weight }) => sum + weight, 0)
  return {
    tokens,
    unknownTokens,
    mean: tokens === 0 ? null : ages.reduce((sum, { value, weight }) => sum + value * weight, 0) / tokens,
    p50: weightedQuantile(ages, 0.5),
    p95: weightedQuantile(ages, 0.95),
    p99: weightedQuantile(ages, 0.99),
    max: ages.at(-1)?.value ?? null,
    shareByAge: ages.map(({ value, weight }) => ({ age: value, share: weight / tokens })),
  }
}

/** Smallest value whose cumulative weight reaches `q` of the whole (nearest rank); `entries` ascending. */
export function weightedQuantile(entries: readonly { readonly value: number; readonly weight: number }[], q: number): number | null {
  const whole = entries.reduce((sum, { weight }) => sum + weight, 0)
  let reached = 0
  for (const { value, weight } of entries) {
    reached += weight
    if (reached >= q * whole) return value
  }
  return entries.at(-1)?.value ?? null
}
