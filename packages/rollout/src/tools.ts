// Runs the tool calls of one turn. Whatever the model wrote wrong, and whatever a tool throws, goes back to the model as text.
import type { EpisodeContext, Json, JsonObject, Message, Tool, ToolCall, ToolSet } from "@cohort/env"
import { messageOf } from "@cohort/errors"
import type { ParsedAssistant, ToolSchema } from "./chat.ts"
import { bounded, type Limit } from "./deadline.ts"
import type { Clock } from "./protocol.ts"

export interface ToolRun {
  readonly messages: readonly Message[]
  readonly calls: number
  readonly failures: number
}

const anyObject: JsonObject = { type: "object", properties: {} }

/** Schemas of a tool set, in its own order. */
export function toolSchemas(tools: ToolSet | undefined): readonly ToolSchema[] {
  return Object.entries(tools ?? {}).map(([name, tool]) => ({
    type: "function",
    function: { name, description: tool.description, parameters: tool.parameters ?? anyObject },
  }))
}

/** Runs calls one after another in the order written; one tool message per call, then one per unreadable call. */
export async function runTools(
  parsed: ParsedAssistant,
  tools: ToolSet | undefined,
  ctx: EpisodeContext,
  limits: { readonly clock: Clock; readonly toolTimeoutMs: number },
): Promise<ToolRun> {
  const messages: Message[] = []
  let failures = 0
  for (const call of parsed.message.tool_calls ?? []) {
    const outcome = await runTool(call, tools, ctx, limits)
    // The episode's own end is not the tool's failure.
    ctx.signal.throwIfAborted()
    if (!outcome.ok) failures++
    messages.push(toolMessage(call.function.name, outcome.text, call.id))
  }
  for (const { name, error } of parsed.callErrors ?? []) {
    failures++
    messages.push(toolMessage(name, errorText(error)))
  }
  return { messages, calls: messages.length, failures }
}

async function runTool(
  call: ToolCall,
  tools: ToolSet | undefined,
  ctx: EpisodeContext,
  limits: { readonly clock: Clock; readonly toolTimeoutMs: number },
): Promise<{ readonly ok: boolean; readonly text: string }> {
  const { name } = call.function
  // An own key only: "constructor" is not a tool.
  const found = tools !== undefined && Object.hasOwn(tools, name) ? tools[name] : undefined
  if (found === undefined)
    return { ok: false, text: errorText(`unknown tool ${JSON.stringify(name)}; available: ${Object.keys(tools ?? {}).join(", ")}`) }
  // A tool set holds tools of many input types; the input is what the tool's own schema returned, or the object the model wrote.
  const tool = found as Tool<unknown>
  try {
    const checked = await tool.input?.["~standard"].validate(call.function.arguments)
    if (checked?.issues !== undefined)
      return { ok: false, text: errorText(checked.issues.map((issue) => issueText(issue)).join("; ")) }
    const input = checked === undefined ? call.function.arguments : checked.value
    const result = await bounded(
      { clock: limits.clock, timeoutMs: limits.toolTimeoutMs, signal: ctx.signal, what: `tool ${name}` },
      (limit) => tool.run(input, toolContext(ctx, limit)),
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
  return typeof result === "string" ? result : JSON.stringify(result ?? null)
}

function errorText(error: string): string {
  return JSON.stringify({ error })
}

function issueText(issue: { readonly message: string; readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined }): string {
  const path = (issue.path ?? []).map((part) => String(typeof part === "object" ? part.key : part)).join(".")
  return path === "" ? issue.message : `${path}: ${issue.message}`
}
