// What a run tells whoever started it, and what can be asked of it.
import type { RunConfig } from "@cohort/config"
import type { Awaitable } from "@cohort/env"
import type { Registry } from "@cohort/plugin"
import type { RolloutWorker, RolloutWorkerOptions, Throttle } from "@cohort/rollout"
import type { Bottleneck } from "./watch/account.ts"
import type { StepCallback } from "./watch/watch.ts"

/** Figures of one optimizer step; names as in the metrics table of the docs. */
export interface StepReport {
  /** Optimizer steps taken, this one included. */
  readonly step: number
  readonly totalSteps: number
  readonly metrics: Readonly<Record<string, number>>
}

export interface EvalReport {
  readonly step: number
  /** Share of prompts whose completions score full marks with every reward. */
  readonly accuracy: number
  readonly rewardMean: number
  readonly prompts: number
  /** Completions that could not be generated or scored: they count in no figure above. */
  readonly unscored: number
  readonly seconds: number
  /** The first few, for people to read. */
  readonly examples: readonly { readonly id: string; readonly prompt: string; readonly completion: string; readonly reward: number | null }[]
}

export interface SyncReport {
  readonly version: number
  readonly seconds: number
  readonly pausedSeconds: number
  readonly bytes: number
}

/** One thing that happened, in order. */
export type RunUpdate =
  | { readonly kind: "phase"; readonly phase: "runtime" | "engine" | "model" | "eval" | "train" | "save" | "done"; readonly message: string }
  | { readonly kind: "progress"; readonly message: string; readonly done: number; readonly total: number }
  | { readonly kind: "step"; readonly report: StepReport }
  | { readonly kind: "eval"; readonly report: EvalReport }
  | { readonly kind: "sync"; readonly report: SyncReport }
  | { readonly kind: "checkpoint"; readonly dir: string; readonly step: number }
  | { readonly kind: "warning"; readonly message: string }

export type StopReason = "steps" | "time" | "reward" | "data" | "guardrail" | "interrupted" | "failed"

export interface RunSummary {
  readonly runDir: string
  readonly stopped: StopReason
  readonly steps: number
  /** Wall-clock seconds from the first admitted prompt to the last step; a resumed run adds to those of its checkpoint. */
  readonly trainSeconds: number
  /** Wall-clock seconds of the whole run, start-up and evaluation included. */
  readonly seconds: number
  /** From the start of the run to the end of the first optimizer step. */
  readonly secondsToFirstStep: number | null
  readonly evalBefore: EvalReport | null
  readonly evalAfter: EvalReport | null
  readonly samplesTrained: number
  readonly trainedTokens: number
  readonly samplesPerSecond: number
  readonly trainedTokensPerSecond: number
  readonly weightSyncs: readonly SyncReport[]
  readonly ageP50: number | null
  readonly ageP95: number | null
  readonly ageMax: number | null
  /** What took most of the trainer's time in the last ten steps, its share of that time, and what to do about it; null before the first step. */
  readonly bottleneck: Bottleneck | null
  /** Groups dropped, by reason. */
  readonly dropped: Readonly<Record<string, number>>
  readonly checkpoint: string | null
  /** Peak resident memory of all processes of the run together, bytes. */
  readonly peakRssBytes: number
}

/** What a rollout side elsewhere needs beside its options, which hold closures. */
export interface WorkerContext {
  readonly config: RunConfig
  readonly projectDir: string
  readonly modelFolder: string
  /** Window of the servers, tokens. */
  readonly maxModelLength: number
  /** Completions that the servers decode at once. */
  readonly slots: number
  readonly runFolder: { readonly id: string; readonly dir: string }
  readonly env: Readonly<Record<string, string | undefined>>
  /** Where plugins are looked for after the project. */
  readonly installDirs: readonly string[]
  /** What the run's watch narrows; the options' policy follows it already. */
  readonly throttle: Throttle
}

export interface RunOptions {
  readonly config: RunConfig
  /** Where each value came from; written beside the config. */
  readonly origins?: Readonly<Record<string, string>>
  readonly registry: Registry
  /** Folder of the config file: relative paths and plugin references start here. */
  readonly projectDir: string
  /** A run folder to go on from its last checkpoint. */
  readonly resume?: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly onUpdate: (update: RunUpdate) => void
  /** Asked after each step; may stop the run. For what conditions in the config cannot say. */
  readonly callbacks?: readonly StepCallback[]
  /**
   * Opens the rollout side of the run: any implementation of the protocol, here, in a thread (`connectRolloutWorker`) or elsewhere. It must tell every event through
   * `options.emit`, take prompts from `options.nextPrompt` and give back through `options.onGiveBack`. Without it the run's own, where `rollout.thread` says.
   */
  readonly openWorker?: (options: RolloutWorkerOptions, run: WorkerContext) => Awaitable<RolloutWorker>
  /** Aborting ends the run after the step in progress, with a checkpoint and a summary. */
  readonly signal: AbortSignal
}

export interface Run {
  readonly id: string
  readonly dir: string
  /** Resolves also when the run was interrupted; rejects with a CohortError when it failed, after the folder was left readable. */
  readonly finished: Promise<RunSummary>
}
