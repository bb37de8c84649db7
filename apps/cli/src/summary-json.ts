// The summary of a run as one line of JSON, for programs.
import type { RunSummary } from "@cohort/trainer"

/** What `--json` prints; absent figures are null. */
export interface SummaryJson {
  readonly accuracyBefore: number | null
  readonly accuracyAfter: number | null
  readonly samplesPerSecond: number
  readonly trainedTokensPerSecond: number
  /** One entry a sync, with its seconds. */
  readonly weightSyncs: RunSummary["weightSyncs"]
  readonly ageP50: number | null
  readonly ageP95: number | null
  readonly ageMax: number | null
  /** Groups by reason. */
  readonly dropped: RunSummary["dropped"]
  /** What took most of the trainer's time in the last steps, with advice. */
  readonly bottleneck: RunSummary["bottleneck"]
  readonly seconds: number
  readonly secondsToFirstStep: number | null
  readonly peakRssBytes: number
  readonly steps: number
  readonly stopped: RunSummary["stopped"]
  readonly runDir: string
  readonly checkpoint: string | null
}

export function summaryJson(summary: RunSummary): SummaryJson {
  return {
    accuracyBefore: summary.evalBefore?.accuracy ?? null,
    accuracyAfter: summary.evalAfter?.accuracy ?? null,
    samplesPerSecond: summary.samplesPerSecond,
    trainedTokensPerSecond: summary.trainedTokensPerSecond,
    weightSyncs: summary.weightSyncs,
    ageP50: summary.ageP50,
    ageP95: summary.ageP95,
    ageMax: summary.ageMax,
    dropped: summary.dropped,
    bottleneck: summary.bottleneck,
    seconds: summary.seconds,
    secondsToFirstStep: summary.secondsToFirstStep,
    peakRssBytes: summary.peakRssBytes,
    steps: summary.steps,
    stopped: summary.stopped,
    runDir: summary.runDir,
    checkpoint: summary.checkpoint,
  }
}
