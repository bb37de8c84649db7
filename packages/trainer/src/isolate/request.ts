// What crosses into an isolate: which plugin to load and how. Plain data; the plugin itself is loaded on the other side.
import type { JsonObject, RewardContext, ScoredRollout } from "@cohort/env"

/** A part of a plugin as the config names it. */
export interface IsolateRequest {
  readonly kind: "reward" | "tools"
  readonly use: string
  readonly options: unknown
  /** The config key, for messages. */
  readonly askedBy: string
  /** Modules that the config loads plugins from. */
  readonly plugins: readonly string[]
  readonly projectDir: string
  readonly installDirs: readonly string[]
  readonly seed: number
  readonly run?: { readonly id: string; readonly dir: string }
}

/** A loaded reward, told to the run. */
export interface IsolatedRewardInfo {
  readonly name: string
  /** It scores whole groups. */
  readonly wholeGroups: boolean
  readonly needs: readonly string[]
  readonly range: readonly [lowest: number, highest: number] | undefined
  readonly deterministic: boolean
}

/** A loaded tool, told to the run: what the model sees of it. */
export interface IsolatedToolInfo {
  readonly name: string
  readonly description: string
  readonly parameters: JsonObject
}

export interface ScoreRequest {
  readonly rollouts: readonly ScoredRollout[]
  readonly policyVersion: RewardContext["policyVersion"]
}

/** A line for the run's log, between the replies to calls. */
export interface LogLine {
  readonly log: string
}

export function isLogLine(message: unknown): message is LogLine {
  return typeof message === "object" && message !== null && "log" in message && typeof message.log === "string"
}
