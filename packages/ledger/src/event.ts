// What a ledger holds: events of a run in the order they were written, and metric values by step.

/** A JSON value as it is stored with an event. */
export type LedgerData = Readonly<Record<string, unknown>>

/** An event to be written. Kinds are the caller's; those that projections read are listed in `kinds`. */
export interface LedgerEventInput {
  readonly kind: string
  readonly atMs: number
  /** Optimizer step that the event belongs to: the version that this step produces. */
  readonly step?: number
  readonly version?: number
  readonly groupId?: string
  readonly occurrence?: number
  readonly rolloutId?: string
  readonly reason?: string
  readonly data?: LedgerData
}

/** An event as it was written. Ids ascend without regard to time. */
export interface LedgerEvent extends LedgerEventInput {
  readonly id: number
}

/** Which events to read; all given conditions must hold. */
export interface EventFilter {
  readonly kinds?: readonly string[]
  readonly step?: number
  readonly groupId?: string
  readonly occurrence?: number
  readonly rolloutId?: string
}

export interface MetricPoint {
  readonly step: number
  /** Null where the value was not a finite number. */
  readonly value: number | null
  readonly atMs: number
}

/** The event kinds that projections give a meaning to. */
export const kinds = {
  /** A prompt occurrence starts. */
  admitted: "group.admitted",
  /** It was trained: `step`, `version` (being trained), data `oldestVersion` and `trainedTokens`. */
  trained: "group.trained",
  /** It ended untrained, with `reason`. */
  dropped: "group.dropped",
  /** It will be admitted again. */
  givenBack: "group.givenBack",
  /** The run went on from a checkpoint after `step` optimizer steps: what was trained later is undone, what was open is lost. */
  resumed: "run.resumed",
  /** Weights reached the servers: data `seconds`, `pausedSeconds`, `bytes`. */
  weightsPushed: "weights.pushed",
  weightsFailed: "weights.failed",
} as const
