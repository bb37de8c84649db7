// Runs the tool calls of one turn. Whatever the model wrote wrong, and whatever a tool throws, goes back to the model as text.
import { callTool, type EpisodeContext, type Json, type Message, type ToolCall, toolParameters, type ToolSet } from "@cohort/env"
import { messageOf } from "@cohort/errors"
import type { ParsedAssistant, ToolSchema } from "./chat.ts"
import { bounded, type Limit } from "./deadline.ts"
import type { Clock } from "./protocol.ts"

export interface ToolRun {
  readonly messages: readonly Message[]
  readonly calls: number
  readonly failures: number
}

interface ToolLimits {
  readonly clock: Clock
  /** Of tools that have none of their own. */
  readonly toolTimeoutMs: number
}

/** Schemas of a tool set, in its own order. */
export function toolSchemas(tools: ToolSet | undefined): readonly ToolSchema[] {
  return Object.entries(tools ?? {}).map(([name, tool]) => ({
    type: "function",
    function: { name, description: tool.description, parameters: toolParameters(tool) },
  }))
}

/** Runs calls one after another in the order written; one tool message per call, also for those that could not be read. */
export async function runTools(parsed: ParsedAssistant, tools: ToolSet | undefined, ctx: EpisodeContext, limits: ToolLimits): Promise<ToolRun> {
  const calls = parsed.message.tool_calls ?? []
  const unread = parsed.callErrors ?? []
  const messages: Message[] = []
  let failures = 0
  for (let at = 0; at <= calls.length; at++) {
    for (const { name, error, callsBefore } of unread) {
      if (Math.min(callsBefore, calls.length) !== at) continue
      failures++
      messages.push(toolMessage(name, errorText(error)))
    }
    const call = calls[at]
    if (call === undefined) break
    const outcome = await runTool(call, tools, ctx, limits)
    // The episode's own end is not the tool's failure.
    ctx.signal.throwIfAborted()
    if (!outcome.ok) failures++
    messages.push(toolMessage(call.function.name, outcome.text, call.id))
  }
  return { messages, calls: messages.length, failures }
}

async function runTool(
  call: ToolCall,
  tools: ToolSet | undefined,
  ctx: EpisodeContext,
  { clock, toolTimeoutMs }: ToolLimits,
): Promise<{ readonly ok: boolean; readonly text: string }> {
  const { name } = call.function
  // An own key only: "constructor" is not a tool.
  const tool = tools !== undefined && Object.hasOwn(tools, name) ? tools[name] : undefined
  if (tool === undefined)
    return { ok: false, text: errorText(`unknown tool ${JSON.stringify(name)}; available: ${Object.keys(tools ?? {}).join(", ")}`) }
  try {
    const result = await bounded(
      { clock, timeoutMs: tool.timeoutMs ?? toolTimeoutMs, signal: ctx.signal, what: `tool ${name}` },
      (limit) => callTool(tool, call.function.arguments, toolContext(ctx, limit)),
    )
    return { ok: true, text: resultText(result) }
  } catch (error) {
    return { ok: false, text: errorText(messageOf(error)) }
  }
}

/** The episode's context with the call's own signal, which is made only for tools that look at it. */
function toolContext(ctx: EpisodeContext, limit: Limit): EpisodeContext {
  return {
    ...ctx,
    get signal() {
      return limit.signal
    },
  }
}

function toolMessage(name: string | undefined, content: string, id?: string): Message {
  return { role: "tool", content, ...(name === undefined ? {} : { name }), ...(id === undefined ? {} : { tool_call_id: id }) }
}

function resultText(result: Json): string {
  // Tools may be written without types: what JSON has no words for reads as null.
  return typeof result === "string" ? result : (JSON.stringify(result ?? null) ?? "null")
}

function errorText(error: string): string {
  return JSON.stringify({ error })
}
