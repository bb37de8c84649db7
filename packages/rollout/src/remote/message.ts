// What crosses between a run and a rollout worker elsewhere: plain data, in order, one kind per line.
import type { GenerateRequest, Generation } from "@cohort/inference"
import type { PlainError } from "@cohort/thread"
import type { RolloutEvent, SampleGroup, VersionedTokens, WorkerStatus } from "../protocol.ts"
import type { PromptOccurrence } from "../worker-options.ts"

/** Calls that are answered with `done` or `failed`. */
export type CallName = "open" | "start" | "pause" | "resume" | "stop"

/** From the run. `id` pairs a question with its answer. */
export type ToHost =
  | { readonly type: "open"; readonly id: number; readonly settings: unknown }
  | { readonly type: Exclude<CallName, "open">; readonly id: number }
  /** Room for one more group: the worker hands out none that was not asked for. */
  | { readonly type: "next"; readonly id: number }
  | { readonly type: "version"; readonly version: number }
  | { readonly type: "release"; readonly occurrence: number; readonly reason: string }
  | { readonly type: "throttle"; readonly maxAhead: number }
  | { readonly type: "generated"; readonly id: number; readonly generations: readonly Generation[] }
  | { readonly type: "notGenerated"; readonly id: number; readonly error: PlainError }
  | { readonly type: "prompt"; readonly id: number; readonly prompt: PromptOccurrence | undefined }
  | { readonly type: "noPrompt"; readonly id: number; readonly error: PlainError }

/** The worker's status as of the message, without a clock in common: how long ago its heart beat. */
export interface StatusReport extends Omit<WorkerStatus, "heartbeatAtMs"> {
  readonly silentMs: number
}

/** From the worker. */
export type ToRun =
  | { readonly type: "done"; readonly id: number }
  | { readonly type: "failed"; readonly id: number; readonly error: PlainError }
  | { readonly type: "group"; readonly id: number; readonly group: SampleGroup }
  | { readonly type: "end"; readonly id: number }
  | { readonly type: "needPrompt"; readonly id: number }
  | { readonly type: "news"; readonly events: readonly RolloutEvent[]; readonly status: StatusReport; readonly queued: readonly VersionedTokens[] }
  | { readonly type: "giveBack"; readonly occurrence: number }
  | { readonly type: "generate"; readonly id: number; readonly request: Omit<GenerateRequest, "signal"> }
  /** Nobody waits for this generation any more. */
  | { readonly type: "cut"; readonly id: number }
  | { readonly type: "log"; readonly message: string }
  /** Something failed that nobody had asked for. */
  | { readonly type: "fault"; readonly error: PlainError }
