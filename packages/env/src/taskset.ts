// Task sets: prompts made by code, split into what is trained on and what is held out.
import type { PromptRow } from "./message.ts"
import type { EnvironmentFactory } from "./environment.ts"

/** A sized, random-access set of prompts. `at` is pure: the same index gives the same row. */
export interface RowSource {
  readonly name: string
  readonly size: number
  at(index: number): PromptRow
}

/** What an environment plugin gives a run. */
export interface TaskSet {
  readonly train: RowSource
  /** Rows never in `train`; used by evaluation only. */
  readonly heldOut: RowSource
  readonly environment?: EnvironmentFactory
}
