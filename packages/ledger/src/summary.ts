// A run in a few figures: why groups were dropped, how the weights travelled, how old the trained groups were.
import { kinds, type LedgerEvent } from "./event.ts"

export interface LedgerSummary {
  readonly events: number
  readonly dropsByReason: Readonly<Record<string, number>>
  readonly weightSyncs: { readonly pushed: number; readonly failed: number; readonly seconds: number; readonly pausedSeconds: number; readonly bytes: number }
  /** Age of trained groups in optimizer steps, weighted by trained tokens; null where no group carries one. */
  readonly ages: { readonly mean: number | null; readonly p50: number | null; readonly p95: number | null; readonly max: number | null }
  /** Trained groups whose event does not say how old they were. */
  readonly trainedWithoutAge: number
}

/** Events that the summary reads. */
export const summaryKinds: readonly string[] = [kinds.dropped, kinds.weightsPushed, kinds.weightsFailed, kinds.trained]

/** Adds events up; `total` is the number of all events of the run. */
export function summarize(events: Iterable<LedgerEvent>, total: number): LedgerSummary {
  const drops = new Map<string, number>()
  const syncs = { pushed: 0, failed: 0, seconds: 0, pausedSeconds: 0, bytes: 0 }
  const tokensByAge = new Map<number, number>()
  let trainedWithoutAge = 0
  for (const event of events) {
    if (event.kind === kinds.dropped) drops.set(event.reason ?? "unknown", (drops.get(event.reason ?? "unknown") ?? 0) + 1)
    else if (event.kind === kinds.weightsFailed) syncs.failed++
    else if (event.kind === kinds.weightsPushed) {
      syncs.pushed++
      for (const name of ["seconds", "pausedSeconds", "bytes"] as const) syncs[name] += numberIn(event, name) ?? 0
    } else if (event.kind === kinds.trained) {
      const oldest = numberIn(event, "oldestVersion")
      if (oldest === null || event.version === undefined) trainedWithoutAge++
      else tokensByAge.set(event.version - oldest, (tokensByAge.get(event.version - oldest) ?? 0) + (numberIn(event, "trainedTokens") ?? 1))
    }
  }
  return {
    events: total,
    dropsByReason: Object.fromEntries([...drops].toSorted(([a], [b]) => a.localeCompare(b))),
    weightSyncs: syncs,
    ages: agesOf([...tokensByAge].toSorted(([a], [b]) => a - b)),
    trainedWithoutAge,
  }
}

function agesOf(entries: readonly (readonly [age: number, tokens: number])[]): LedgerSummary["ages"] {
  const tokens = entries.reduce((sum, [, count]) => sum + count, 0)
  const quantile = (share: number): number | null => {
    let reached = 0
    for (const [age, count] of entries) {
      reached += count
      if (reached >= share * tokens) return age
    }
    return null
  }
  const mean = tokens === 0 ? null : entries.reduce((sum, [age, count]) => sum + age * count, 0) / tokens
  return { mean, p50: quantile(0.5), p95: quantile(0.95), max: entries.at(-1)?.[0] ?? null }
}

function numberIn(event: LedgerEvent, name: string): number | null {
  const value = event.data?.[name]
  return typeof value === "number" && Number.isFinite(value) ? value : null
}
