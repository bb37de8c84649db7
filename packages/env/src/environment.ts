// The environment protocol: one instance per rollout, always closed.
import type { StandardSchemaV1 } from "@standard-schema/spec"
import type { Awaitable, Json, JsonObject } from "./json.ts"
import type { Message, PromptRow, ToolCall } from "./message.ts"
import type { RewardResult } from "./reward.ts"

/** A tool the model may call. `input` validates the arguments; `parameters` is its JSON Schema for the chat template. */
export interface Tool<Input = JsonObject> {
  readonly description: string
  readonly input?: StandardSchemaV1<unknown, Input>
  readonly parameters?: JsonObject
  /** Time one call may take, ms; without it the run's. */
  readonly timeoutMs?: number
  run(input: Input, ctx: EpisodeContext): Awaitable<Json>
}

/** Tools by name; each takes what its own schema gives. */
export type ToolSet = Readonly<Record<string, Tool<unknown>>>

/** What `reset` may return: text appended to the last user message, or messages appended to the prompt. */
export type Observation = string | readonly Message[]

/** One turn of the assistant, parsed. */
export interface AssistantTurn {
  readonly message: Message
  readonly text: string
  readonly toolCalls: readonly ToolCall[]
  readonly turn: number
}

export interface EpisodeContext {
  readonly signal: AbortSignal
  /** Uniform in [0, 1), seeded per rollout. */
  readonly random: () => number
  readonly log: (message: string) => void
}

export interface Environment {
  readonly tools?: ToolSet
  reset(row: PromptRow, ctx: EpisodeContext): Awaitable<Observation | void>
  /** Speaks when no tool was called; without it the episode ends there. */
  respond?(turn: AssistantTurn): Awaitable<{ messages?: readonly Message[]; done?: boolean }>
  /** The environment's own reward for the finished episode. */
  score?(): Awaitable<number | RewardResult>
  close?(): Awaitable<void>
}

/** Makes a fresh environment for one rollout. */
export type EnvironmentFactory = () => Environment
