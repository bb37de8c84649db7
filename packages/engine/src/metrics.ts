// What the engine counts for the outside: gauges, sums and latency histograms, by the names that vLLM's users read.
import type { SchedulerCounters } from "./scheduler.ts"

export interface Histogram {
  /** Upper bounds, seconds, ascending; the last bucket is unbounded. */
  readonly bounds: readonly number[]
  readonly counts: number[]
  sum: number
  count: number
}

export function createHistogram(bounds: readonly number[]): Histogram {
  return { bounds, counts: Array.from({ length: bounds.length + 1 }, () => 0), sum: 0, count: 0 }
}

export function observe(histogram: Histogram, value: number): void {
  const bucket = histogram.bounds.findIndex((bound) => value <= bound)
  histogram.counts[bucket < 0 ? histogram.bounds.length : bucket]!++
  histogram.sum += value
  histogram.count++
}

export interface EngineLatencies {
  readonly timeToFirstToken: Histogram
  readonly endToEnd: Histogram
  readonly weightLoad: Histogram
}

export function createLatencies(): EngineLatencies {
  const bounds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
  return { timeToFirstToken: createHistogram(bounds), endToEnd: createHistogram(bounds), weightLoad: createHistogram(bounds) }
}

export interface EngineMetrics {
  readonly running: number
  readonly waiting: number
  /** Slots in use over slots: a slot reserves the cache of a whole context. */
  readonly kvUsage: number
  readonly counters: Readonly<SchedulerCounters>
  readonly latencies: EngineLatencies
}
