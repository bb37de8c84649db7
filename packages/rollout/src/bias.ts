// Who reaches the trainer? Compares length, duration and environment of the groups that were trained with all that ended: a pipeline that
// drops what is slow trains on what is easy, and no other figure shows it.
import { weightedQuantile } from "./freshness.ts"

/** What the monitor reads of an event; the worker's and the trainer's events have it. */
export interface BiasEvent {
  readonly kind: string
  readonly atMs: number
  readonly groupId?: string
  readonly data?: Readonly<Record<string, unknown>>
}

export interface BiasOptions {
  /** Groups that are remembered. */
  readonly window?: number
  /** Fewer ended groups say nothing. */
  readonly least?: number
  /** Ratio to 1 from which it is an alarm. */
  readonly tolerance?: number
}

export interface BiasReport {
  readonly ended: number
  readonly trained: number
  /** Mean completion tokens of trained rollouts / of all; null while too few are known. */
  readonly length: number | null
  /** Mean time from admission to the end, the same ratio. */
  readonly duration: number | null
  /** 90th percentile of the duration, the same ratio. */
  readonly durationP90: number | null
  /** Share among the trained / share among all that ended, per environment; `none` for rows without one. */
  readonly environments: Readonly<Record<string, number>>
  /** What is out of the tolerance, in a sentence. */
  readonly alarm: string | null
}

export interface BiasMonitor {
  event(event: BiasEvent): void
  report(): BiasReport
}

interface Group {
  readonly admittedAtMs: number
  readonly environment: string
  tokens: number
  rollouts: number
}

interface Ended extends Omit<Group, "admittedAtMs"> {
  readonly durationMs: number
  readonly trained: boolean
}

/**
 * @example
 * const monitor = createBiasMonitor()
 * for (const event of events) monitor.event(event)
 * monitor.report().alarm // "trained groups took 0.62 of the time of all: slow prompts are trained too rarely"
 */
export function createBiasMonitor(options: BiasOptions = {}): BiasMonitor {
  const { window = 512, least = 64, tolerance = 0.15 } = options
  const open = new Map<string, Group>()
  const ended: Ended[] = []
  /** Duration counts to the queue: waiting for the trainer is not the group's slowness. */
  const readyAtMs = new Map<string, number>()

  const end = (groupId: string, atMs: number, trained: boolean): void => {
    const group = open.get(groupId)
    if (group === undefined) return
    ended.push({ ...group, durationMs: (readyAtMs.get(groupId) ?? atMs) - group.admittedAtMs, trained })
    open.delete(groupId)
    readyAtMs.delete(groupId)
    if (ended.length > window) ended.shift()
  }

  return {
    event({ kind, atMs, groupId, data }) {
      if (groupId === undefined) return
      if (kind === "group.admitted") open.set(groupId, { admittedAtMs: atMs, environment: typeof data?.environment === "string" ? data.environment : "none", tokens: 0, rollouts: 0 })
      else if (kind === "rollout.generated") {
        const group = open.get(groupId)
        if (group === undefined) return
        group.tokens += Number(data?.tokens ?? 0)
        group.rollouts++
      } else if (kind === "group.queued") readyAtMs.set(groupId, atMs)
      else if (kind === "group.trained") end(groupId, atMs, true)
      else if (kind === "group.dropped") end(groupId, atMs, false)
      else if (kind === "group.givenBack") {
        open.delete(groupId)
        readyAtMs.delete(groupId)
      }
    },
    report: () => reportOf(ended, least, tolerance),
  }
}

function reportOf(ended: readonly Ended[], least: number, tolerance: number): BiasReport {
  const trained = ended.filter((group) => group.trained)
  const known = ended.length >= least && trained.length >= least / 4
  const ratio = (of: (groups: readonly Ended[]) => number): number | null => (known && of(ended) > 0 ? of(trained) / of(ended) : null)
  const length = ratio((groups) => sum(groups, ({ tokens }) => tokens) / Math.max(1, sum(groups, ({ rollouts }) => rollouts)))
  const duration = ratio((groups) => sum(groups, ({ durationMs }) => durationMs) / Math.max(1, groups.length))
  const durationP90 = ratio((groups) => weightedQuantile(groups.map(({ durationMs }) => ({ value: durationMs, weight: 1 })).toSorted((a, b) => a.value - b.value), 0.9) ?? 0)
  const names = new Set(ended.map(({ environment }) => environment))
  const shareOf = (groups: readonly Ended[], name: string): number => groups.filter(({ environment }) => environment === name).length / Math.max(1, groups.length)
  const environments = known ? Object.fromEntries([...names].map((name) => [name, shareOf(trained, name) / shareOf(ended, name)])) : {}
  return { ended: ended.length, trained: trained.length, length, duration, durationP90, environments, alarm: alarmOf({ length, duration, environments }, tolerance) }
}

function alarmOf(ratios: Pick<BiasReport, "length" | "duration" | "environments">, tolerance: number): string | null {
  const off = (value: number | null): value is number => value !== null && Math.abs(value - 1) > tolerance
  const parts: string[] = []
  if (off(ratios.duration)) parts.push(`trained groups took ${ratios.duration.toFixed(2)} of the time of all that ended: ${ratios.duration < 1 ? "slow" : "fast"} prompts are trained too rarely`)
  if (off(ratios.length)) parts.push(`trained completions have ${ratios.length.toFixed(2)} of the length of all that ended`)
  for (const [name, value] of Object.entries(ratios.environments)) if (off(value)) parts.push(`environment ${name} is trained ${value.toFixed(2)} times as often as it is drawn`)
  return parts.length === 0 ? null : parts.join("; ")
}

function sum(groups: readonly Ended[], of: (group: Ended) => number): number {
  return groups.reduce((total, group) => total + of(group), 0)
}
