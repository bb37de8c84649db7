// Which policy version made which token: read from the server where it says so, kept by hand where it does not.
import { describe, fieldsOf, malformed } from "./answer.ts"
import type { VersionSpan } from "./protocol.ts"

/** A request as the tracker sees it. */
export interface TrackedRequest {
  /** The oldest version that can have made one of its tokens. */
  readonly oldest: number
  close(): void
}

export interface VersionTracker {
  readonly current: number
  readonly paused: boolean
  /** Time spent paused since the beginning, ms. */
  pausedMs(): number
  pause(): void
  resume(): void
  switchTo(version: number): void
  open(): TrackedRequest
}

/**
 * Bookkeeping of one server's version around pauses.
 *
 * A request counts as made by the version at its start: when weights change under it, where they changed is not known, and the older
 * version is the safe answer for staleness. A request sent while the server stands paused waits for the resume and runs wholly
 * on the version of that moment.
 *
 * @param now milliseconds; only differences are used
 */
export function versionTracker(initialVersion: number, now: () => number): VersionTracker {
  let current = initialVersion
  let pausedSince: number | undefined
  let pausedBefore = 0
  const waiting = new Set<{ oldest: number }>()
  return {
    get current() {
      return current
    },
    get paused() {
      return pausedSince !== undefined
    },
    pausedMs: () => pausedBefore + (pausedSince === undefined ? 0 : now() - pausedSince),
    pause() {
      pausedSince ??= now()
    },
    resume() {
      if (pausedSince === undefined) return
      pausedBefore += now() - pausedSince
      pausedSince = undefined
      for (const request of waiting) request.oldest = current
      waiting.clear()
    },
    switchTo(version) {
      current = version
    },
    open() {
      const request = { oldest: current }
      if (pausedSince !== undefined) waiting.add(request)
      return {
        get oldest() {
          return request.oldest
        },
        close: () => void waiting.delete(request),
      }
    },
  }
}

/**
 * A server's version label as a policy version. `default` is what a server says before it was told any.
 * @throws CohortError `inference_failed` for a label that is no version
 */
export function versionOfLabel(label: unknown, initialVersion: number, where: string): number {
  if (label === "default") return initialVersion
  const text = typeof label === "number" ? String(label) : label
  if (typeof text === "string" && /^\d{1,15}$/.test(text)) return Number(text)
  throw malformed(`${where}: weight version ${describe(label)} is no policy version`, "Another program set this label; restart the server, or load weights.")
}

/**
 * Spans of vLLM's `weight_versions`: half-open, ascending, covering every token. Equal neighbours are joined.
 *
 * @example
 * spansOfLabels([{ version: "1", start: 0, end: 30 }, { version: "2", start: 30, end: 60 }], 60, 0, "a") // [[0, 1], [30, 2]]
 * @throws CohortError `inference_failed` when they leave a gap or overlap
 */
export function spansOfLabels(labels: readonly unknown[], tokens: number, initialVersion: number, where: string): VersionSpan[] {
  const spans: [number, number][] = []
  let reached = 0
  for (const entry of labels) {
    const { version: label, start, end } = fieldsOf(entry) ?? {}
    if (start !== reached || typeof end !== "number" || end < reached || end > tokens)
      throw malformed(`${where}: weight_versions ${JSON.stringify(labels)} do not cover tokens 0 to ${tokens} in order`)
    const version = versionOfLabel(label, initialVersion, where)
    if (end > reached && spans.at(-1)?.[1] !== version) spans.push([reached, version])
    reached = end
  }
  if (reached !== tokens) throw malformed(`${where}: weight_versions end at token ${reached} of ${tokens}`)
  return spans
}
