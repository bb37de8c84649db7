// One rollout from its prompt to its training rows: turns, tools, the environment, the server's window, every deadline.
// What goes wrong inside a rollout is a value; only a bug throws.
import type { Environment, EnvironmentFactory, EpisodeContext, Message, PromptRow, RewardResult, ToolSet } from "@cohort/env"
import { isCohortError, messageOf } from "@cohort/errors"
import type { Generation, InferenceServer, Sampling } from "@cohort/inference"
import { continuationIds, type EpisodeTokenizer, type ParsedAssistant } from "./chat.ts"
import { withDeadline } from "./deadline.ts"
import { closeEnvironment, environmentReply, environmentScore, openEnvironment, openingPrompt } from "./episode-environment.ts"
import { failed, failureOfError, isFailure, type RolloutFailure, turnOf } from "./generation.ts"
import type { Clock } from "./protocol.ts"
import type { Random } from "./random.ts"
import { reconcile, type ReconcileTally, type TokenRow, type TurnRecord } from "./reconcile.ts"
import { runTools, toolSchemas } from "./tools.ts"

/** Bounds of a rollout; each is a deadline of its own. */
export interface EpisodeLimits {
  /** Tokens the server can hold: prompt and completion. */
  readonly maxModelLength: number
  /** Tokens of the first turn's prompt; longer ones are dropped before anything is generated. Without it only the window bounds them. */
  readonly maxPromptTokens?: number
  /** Assistant turns; the last one's tool calls are not run. */
  readonly maxTurns: number
  readonly generateTimeoutMs: number
  readonly toolTimeoutMs: number
  /** Bounds reset, respond, score and close of the environment, each. */
  readonly environmentTimeoutMs: number
  readonly episodeTimeoutMs: number
  readonly forkThresholdTokens: number
  /** Turns whose tool calls are run; without it only `maxTurns` bounds them. 0 runs none. */
  readonly maxToolRounds?: number
  /** Tokens that the model may generate over all turns of a rollout. */
  readonly maxEpisodeTokens?: number
}

/**
 * How the next turn's prompt is made. `tokens`: what was generated stays as it is, the new messages are appended. `messages`: the template renders
 * the whole conversation again, which may rewrite earlier turns; rows fork where it does.
 */
export type TurnMode = "tokens" | "messages"

/** Why a rollout ended. All but the first two cut it short: `length` by the limit of a turn, `window` by what the server can hold. */
export type EpisodeEnd = "stop" | "environment" | "length" | "window" | "turns" | "toolRounds" | "episodeTokens"

/** What all rollouts of a worker share. */
export interface EpisodeServices {
  readonly tokenizer: EpisodeTokenizer
  readonly server: Pick<InferenceServer, "generate">
  readonly clock: Clock
  readonly limits: EpisodeLimits
  readonly log: (message: string) => void
  /** `tokens` when absent. */
  readonly turnMode?: TurnMode
  /** Tools of every rollout; those of its environment come beside them and win over equal names. */
  readonly tools?: ToolSet
}

export interface EpisodeOptions extends EpisodeServices {
  readonly rolloutId: string
  readonly member: number
  readonly row: PromptRow
  /** Per turn; `maxTokens` is cut to the room left in the window. Turn t uses `seed + t`. */
  readonly sampling: Sampling
  readonly environment?: EnvironmentFactory
  readonly random: Random
  readonly signal: AbortSignal
}

/** A finished rollout. */
export interface Episode {
  readonly rolloutId: string
  readonly member: number
  readonly rows: readonly TokenRow[]
  readonly prompt: string | readonly Message[]
  readonly completion: readonly Message[]
  readonly text: string
  readonly completionIds: Int32Array
  readonly turns: number
  readonly finishReason: "stop" | "length"
  readonly endedBy: EpisodeEnd
  /** Cut by a limit: of length, window, turns, tool rounds or tokens in all. */
  readonly truncated: boolean
  /** How the turns joined. */
  readonly tally: ReconcileTally
  readonly toolCalls: number
  readonly toolFailures: number
  /** Time in tools and in the environment's answers, ms. */
  readonly toolMs: number
  /** What the environment itself says; absent without `score`. */
  readonly environmentScore?: RewardResult
}

export type EpisodeResult = { readonly kind: "finished"; readonly episode: Episode } | RolloutFailure

/**
 * Runs one rollout. Token ids are appended between turns, never encoded again. The environment is closed on every way out.
 *
 * @returns the episode, or a failure with its reason; never throws for what a server, tool or environment does.
 * @example
 * const result = await runEpisode({ ...services, rolloutId: "g0.0.1", member: 0, row, sampling, random, signal })
 */
export async function runEpisode(options: EpisodeOptions): Promise<EpisodeResult> {
  const { clock, limits, signal } = options
  const environment = openEnvironment(options)
  if (isFailure(environment)) return environment
  const life = new AbortController()
  try {
    return await withDeadline(
      { clock, timeoutMs: limits.episodeTimeoutMs, signal, what: `rollout ${options.rolloutId}`, controller: life },
      (inner) => converse({ ...options, signal: inner, life }, environment.instance),
    )
  } catch (error) {
    if (signal.aborted) return failed("aborted", messageOf(signal.reason), false)
    if (isCohortError(error) && error.code === "timeout") return failed("episode_timeout", messageOf(error), true)
    // A fault in our own code or in an injected tokenizer: this rollout ends, and the worker stops if every group meets it.
    return failed("internal", messageOf(error), false)
  } finally {
    await closeEnvironment(environment.instance, options)
  }
}

/** The rollouts of a group without environment and tools out of one request: the server reads the prompt once. */
export async function runSharedEpisodes(
  options: EpisodeServices & {
    readonly row: PromptRow
    readonly sampling: Sampling
    readonly signal: AbortSignal
    readonly members: readonly { readonly member: number; readonly rolloutId: string }[]
  },
): Promise<readonly EpisodeResult[]> {
  const { members, row, tokenizer } = options
  const promptIds = encode(() => tokenizer.encodePrompt(row.prompt))
  if (isFailure(promptIds)) return members.map(() => promptIds)
  const generations = await generate(options, promptIds, members.length, 0)
  if (isFailure(generations)) return members.map(() => generations)
  return members.map(({ member, rolloutId }, index) => {
    const generation = generations[index]
    const turn = turnOf(promptIds, generation)
    if (isFailure(turn)) return turn
    const story = newStory(row.prompt)
    try {
      record(story, tokenizer, turn, generation!, [], cutOf(options, promptIds.length))
    } catch (error) {
      return failed("internal", messageOf(error), false)
    }
    return finish(story, { rolloutId, member, forkThresholdTokens: options.limits.forkThresholdTokens })
  })
}

/** What has happened so far in one rollout. */
interface Story {
  readonly prompt: string | readonly Message[]
  readonly turns: TurnRecord[]
  readonly completion: Message[]
  text: string
  finishReason: "stop" | "length"
  endedBy: EpisodeEnd
  tokens: number
  toolRounds: number
  toolCalls: number
  toolFailures: number
  toolMs: number
}

function newStory(prompt: string | readonly Message[]): Story {
  return { prompt, turns: [], completion: [], text: "", finishReason: "stop", endedBy: "stop", tokens: 0, toolRounds: 0, toolCalls: 0, toolFailures: 0, toolMs: 0 }
}

async function converse(options: EpisodeOptions & { readonly life: AbortController }, environment: Environment | undefined): Promise<EpisodeResult> {
  const { tokenizer, signal, random, log, limits } = options
  const ctx: EpisodeContext = { signal, random, log }
  const prompt = await openingPrompt(options, environment, ctx)
  if (isFailure(prompt)) return prompt
  const tools = toolsOf(options, environment)
  const schemas = toolSchemas(tools)
  const toolNames = Object.keys(tools ?? {})
  const story = newStory(prompt)
  let promptIds = encode(() => tokenizer.encodePrompt(prompt, schemas))
  for (let turn = 0; ; turn++) {
    if (isFailure(promptIds)) return promptIds
    const tokensLeft = (limits.maxEpisodeTokens ?? Number.POSITIVE_INFINITY) - story.tokens
    const generations = await generate(options, promptIds, 1, turn, tokensLeft)
    if (isFailure(generations)) {
      // A later turn that no longer fits ends the rollout; what was generated stays.
      if (generations.reason !== "prompt_too_long" || turn === 0) return generations
      story.endedBy = "window"
      break
    }
    const made = turnOf(promptIds, generations[0])
    if (isFailure(made)) return made
    const checked = turn > 0 && options.turnMode !== "messages" ? { ...made, continues: true } : made
    const parsed = record(story, tokenizer, checked, generations[0]!, toolNames, cutOf(options, promptIds.length, tokensLeft))
    // A turn cut by length may hold half a call: nothing is run, nothing is asked again.
    if (story.finishReason === "length") break
    const askedAtMs = options.clock.now()
    const reply = await answer(options, environment, tools, story, parsed, turn + 1 >= limits.maxTurns, ctx)
    story.toolMs += options.clock.now() - askedAtMs
    if (isFailure(reply)) return reply
    story.completion.push(...reply.messages)
    if (reply.done) break
    if (limits.maxEpisodeTokens !== undefined && story.tokens >= limits.maxEpisodeTokens) {
      story.endedBy = "episodeTokens"
      break
    }
    promptIds = nextPrompt(options, { prompt, story, turn: checked, parsed, messages: reply.messages, schemas })
  }
  const result = finish(story, { rolloutId: options.rolloutId, member: options.member, forkThresholdTokens: limits.forkThresholdTokens })
  if (isFailure(result) || environment?.score === undefined) return result
  return { kind: "finished", episode: { ...result.episode, environmentScore: await environmentScore(options, environment) } }
}

/** What the model may call: tools of the run and of this environment; undefined where there are none. */
function toolsOf({ tools }: EpisodeOptions, environment: Environment | undefined): ToolSet | undefined {
  if (environment?.tools === undefined) return tools
  return tools === undefined ? environment.tools : { ...tools, ...environment.tools }
}

/** The whole prompt of the turn that follows. */
function nextPrompt(
  { tokenizer, turnMode = "tokens" }: EpisodeOptions,
  so: {
    readonly prompt: string | readonly Message[]
    readonly story: Story
    readonly turn: TurnRecord
    readonly parsed: ParsedAssistant
    readonly messages: readonly Message[]
    readonly schemas: ReturnType<typeof toolSchemas>
  },
): Int32Array | RolloutFailure {
  if (turnMode === "messages") {
    const opening: readonly Message[] = typeof so.prompt === "string" ? [{ role: "user", content: so.prompt }] : so.prompt
    return encode(() => tokenizer.encodePrompt([...opening, ...so.story.completion], so.schemas))
  }
  const delta = encode(() => continuationIds(tokenizer, so.turn.tokenIds, so.parsed.message.tool_calls ?? [], so.messages, so.schemas))
  if (isFailure(delta)) return delta
  const { promptIds, tokenIds } = so.turn
  const next = new Int32Array(promptIds.length + tokenIds.length + delta.length)
  next.set(promptIds)
  next.set(tokenIds, promptIds.length)
  next.set(delta, promptIds.length + tokenIds.length)
  return next
}

/** Tool results or the environment's words; `done` when nobody speaks any more. */
async function answer(
  options: EpisodeOptions,
  environment: Environment | undefined,
  tools: ToolSet | undefined,
  story: Story,
  parsed: ParsedAssistant,
  lastTurn: boolean,
  ctx: EpisodeContext,
): Promise<{ readonly messages: readonly Message[]; readonly done: boolean } | RolloutFailure> {
  const toolCalls = parsed.message.tool_calls ?? []
  const wantsTools = tools !== undefined && toolCalls.length + (parsed.callErrors?.length ?? 0) > 0
  if (wantsTools) {
    const noMoreRounds = story.toolRounds >= (options.limits.maxToolRounds ?? Number.POSITIVE_INFINITY)
    if (lastTurn || noMoreRounds) {
      story.endedBy = noMoreRounds ? "toolRounds" : "turns"
      return { messages: [], done: true }
    }
    story.toolRounds++
    const run = await runTools(parsed, tools, ctx, { clock: options.clock, toolTimeoutMs: options.limits.toolTimeoutMs })
    story.toolCalls += run.calls
    story.toolFailures += run.failures
    return { messages: run.messages, done: false }
  }
  if (environment === undefined) return { messages: [], done: true }
  const reply = await environmentReply(options, environment, { message: parsed.message, text: parsed.text, toolCalls, turn: story.turns.length - 1 })
  if (isFailure(reply) || reply.done || !lastTurn) {
    if (!isFailure(reply) && reply.done && environment.respond !== undefined) story.endedBy = "environment"
    return reply
  }
  story.endedBy = "turns"
  return { ...reply, done: true }
}

/** One request with its window check, deadline and typed failure. */
async function generate(
  options: EpisodeServices & { readonly sampling: Sampling; readonly signal: AbortSignal; readonly life?: AbortController },
  promptIds: Int32Array,
  n: number,
  turn: number,
  tokensLeft: number = options.limits.maxEpisodeTokens ?? Number.POSITIVE_INFINITY,
): Promise<readonly Generation[] | RolloutFailure> {
  const { server, clock, limits, sampling, signal, life } = options
  const room = limits.maxModelLength - promptIds.length
  if (promptIds.length === 0) return failed("prompt_empty", "the prompt has no tokens", false)
  if (turn === 0 && promptIds.length > (limits.maxPromptTokens ?? Number.POSITIVE_INFINITY))
    return failed("prompt_too_long", `${promptIds.length} prompt tokens; maxPromptTokens is ${limits.maxPromptTokens}`, false)
  if (room < 1)
    return failed("prompt_too_long", `${promptIds.length} prompt tokens leave no room in a window of ${limits.maxModelLength}`, false)
  try {
    // A generation that is too late ends its rollout: one controller does for both.
    return await withDeadline({ clock, timeoutMs: limits.generateTimeoutMs, signal, what: "generation", ...(life === undefined ? {} : { controller: life }) }, (inner) =>
      server.generate({
        promptIds,
        n,
        sampling: {
          ...sampling,
          maxTokens: Math.min(sampling.maxTokens, room, tokensLeft),
          ...(sampling.seed === undefined ? {} : { seed: sampling.seed + turn }),
        },
        signal: inner,
      }),
    )
  } catch (error) {
    return failureOfError(error, signal)
  }
}

/** Which limit it is that ends a turn by its length. */
function cutOf({ limits, sampling }: Pick<EpisodeOptions, "limits" | "sampling">, promptTokens: number, tokensLeft = Number.POSITIVE_INFINITY): EpisodeEnd {
  const room = limits.maxModelLength - promptTokens
  if (sampling.maxTokens <= Math.min(room, tokensLeft)) return "length"
  return room <= tokensLeft ? "window" : "episodeTokens"
}

function record(story: Story, tokenizer: EpisodeTokenizer, turn: TurnRecord, generation: Generation, toolNames: readonly string[], cut: EpisodeEnd): ParsedAssistant {
  const parsed = tokenizer.parseAssistant(turn.tokenIds, turn.promptIds, toolNames)
  story.turns.push(turn)
  story.completion.push(parsed.message)
  story.text = parsed.text
  story.finishReason = generation.finishReason === "length" ? "length" : "stop"
  story.tokens += turn.tokenIds.length
  if (story.finishReason === "length") story.endedBy = cut
  return parsed
}

function finish(
  story: Story,
  options: { readonly rolloutId: string; readonly member: number; readonly forkThresholdTokens: number },
): EpisodeResult {
  const { rows, tally } = reconcile(story.turns, options)
  if (rows.length === 0) return failed("empty_completion", "the server generated no token", false)
  const { prompt, completion, text, finishReason, endedBy, toolCalls, toolFailures, toolMs, turns } = story
  const completionIds = new Int32Array(story.tokens)
  let at = 0
  for (const { tokenIds } of turns) {
    completionIds.set(tokenIds, at)
    at += tokenIds.length
  }
  return {
    kind: "finished",
    episode: {
      prompt, completion, text, finishReason, endedBy, toolCalls, toolFailures, toolMs,
      rolloutId: options.rolloutId,
      member: options.member,
      rows,
      tally,
      truncated: endedBy !== "stop" && endedBy !== "environment",
      turns: turns.length,
      completionIds,
    },
  }
}

/** A template that refuses its messages fails the rollout, not the run. */
function encode(render: () => Int32Array | RolloutFailure): Int32Array | RolloutFailure {
  try {
    return render()
  } catch (error) {
    return failed("template_broken", messageOf(error), false)
  }
}
