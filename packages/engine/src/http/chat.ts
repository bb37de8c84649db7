// POST /v1/chat/completions: messages through the chat template. With tools, a whole answer's calls are parsed out of its text;
// a stream's text is passed on as it comes.
import { Hono, type Context } from "hono"

import type { Completion } from "../request.ts"
import type { ChatPrompt } from "../tokenizer.ts"
import { fingerprint, type Api } from "./api.ts"
import { readBody } from "./body.ts"
import { badRequest } from "./errors.ts"
import type { Fields } from "./fields.ts"
import { fullUsage, requestBase, startJob, sumOf, usageOf, type Job } from "./job.ts"
import { chatLogProbs, promptLogProbs, type TokenSpelling } from "./log-probs.ts"
import { checkModel, fitContext } from "./prompts.ts"
import { checkSampling, readLogProbs, readSampling } from "./sampling.ts"
import { eventStream } from "./sse.ts"

interface Answer {
  readonly id: string
  readonly created: number
  readonly model: string
  readonly promptIds: Int32Array
  readonly n: number
  /** `top_logprobs`; undefined: no log-probs wanted. */
  readonly logProbs: number | undefined
  readonly withTokenIds: boolean
  readonly includeUsage: boolean
  /** Names of the tools on offer when calls may be parsed. */
  readonly toolNames: readonly string[]
  readonly newId: () => string
  readonly spelling: TokenSpelling
}

export function chatRoutes(api: Api) {
  return new Hono().post("/v1/chat/completions", (context) => chat(api, context))
}

/** The template's part of a chat or tokenize request. */
export function readChatPrompt(fields: Fields): ChatPrompt {
  const messages = fields.list("messages")
  if (fields.raw("messages") === undefined) fields.missing("messages")
  messages?.forEach((message, index) => {
    if (typeof message !== "object" || message === null || Array.isArray(message))
      fields.report({ type: "dict_type", loc: `body.messages.${index}`, msg: "Input should be a valid dictionary", input: message })
  })
  const tools = fields.list("tools")
  const chatTemplate = fields.string("chat_template")
  const templateArguments = fields.raw("chat_template_kwargs")
  const continueFinalMessage = fields.boolean("continue_final_message") ?? false
  const addGenerationPrompt = fields.boolean("add_generation_prompt") ?? true
  if (continueFinalMessage && addGenerationPrompt) throw badRequest("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
  return {
    messages: messages ?? [],
    addGenerationPrompt,
    continueFinalMessage,
    ...(tools === undefined || tools.length === 0 ? {} : { tools }),
    ...(chatTemplate === undefined ? {} : { chatTemplate }),
    ...(typeof templateArguments === "object" && templateArguments !== null ? { templateArguments: { ...templateArguments } } : {}),
  }
}

async function chat(api: Api, context: Context): Promise<Response> {
  const { engine } = api
  const fields = await readBody(context)
  const prompt = readChatPrompt(fields)
  const sampling = readSampling(fields)
  const maxTokens = fields.integer("max_completion_tokens") ?? sampling.maxTokens
  const model = fields.string("model")
  const requestId = fields.string("request_id")
  const stream = fields.boolean("stream") ?? false
  const withTokenIds = fields.boolean("return_token_ids") ?? false
  const asIds = fields.boolean("return_tokens_as_token_ids") ?? api.tokensAsIds
  const includeUsage = fields.object("stream_options")?.boolean("include_usage") ?? false
  const wantsLogProbs = fields.boolean("logprobs") ?? false
  const top = readLogProbs(api, fields, "top_logprobs")
  fields.check()
  checkModel(engine, model)
  if (top !== undefined && top > 0 && !wantsLogProbs) throw badRequest("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")
  const toolChoice = fields.raw("tool_choice")
  if (toolChoice !== undefined && toolChoice !== "auto" && toolChoice !== "none")
    throw badRequest('This engine cannot force a tool call: `tool_choice` must be "auto" or "none".', "tool_choice")
  checkSampling(api, fields, { ...sampling, maxTokens })
  if (stream && sampling.promptLogProbs !== undefined) throw badRequest("`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs")

  const promptIds = engine.tokenizer.encodeChat(prompt)
  const answer: Answer = {
    id: `chatcmpl-${requestBase(api, context, requestId)}`,
    created: api.nowSeconds(),
    model: engine.modelName,
    promptIds,
    n: sampling.n,
    logProbs: wantsLogProbs ? (top ?? 0) : undefined,
    withTokenIds,
    includeUsage,
    toolNames: toolChoice === "none" ? [] : (prompt.tools ?? []).flatMap(nameOfTool),
    newId: api.newId,
    spelling: { tokenizer: engine.tokenizer, asIds },
  }
  const room = fitContext(engine, promptIds.length, maxTokens, engine.contextLength)
  const job = startJob(api, context, [{ ...sampling.request, promptIds, maxTokens: room, topLogProbs: answer.logProbs ?? 0, text: true, stream, id: answer.id }])
  if (stream) return eventStream(chunks(answer, job))
  const [completions, scores] = await Promise.all([job.collect(), sampling.promptLogProbs === undefined ? undefined : engine.score(promptIds)])
  return context.json(whole(answer, completions[0]!, scores))
}

/** Message and reason: an answer that calls tools and ended by itself ends with "tool_calls". */
function messageOf(answer: Answer, completion: Completion) {
  const { tokenizer } = answer.spelling
  const parsed = answer.toolNames.length === 0 ? undefined : tokenizer.parseToolCalls?.(completion.tokenIds, answer.toolNames)
  const rest = { refusal: null, annotations: null, audio: null, function_call: null }
  const { reason } = completion.finish
  if (parsed === undefined || parsed.calls.length === 0)
    return { message: { role: "assistant", content: completion.text, ...rest, reasoning: null }, finish_reason: reason }
  const calls = parsed.calls.map((call) => ({ id: `chatcmpl-tool-${answer.newId()}`, type: "function", function: call }))
  const content = parsed.content.trim() === "" ? null : parsed.content
  return { message: { role: "assistant", content, ...rest, tool_calls: calls, reasoning: null }, finish_reason: reason === "stop" ? "tool_calls" : reason }
}

function nameOfTool(tool: unknown): readonly string[] {
  const name = (tool as { readonly function?: { readonly name?: unknown } } | null)?.function?.name
  return typeof name === "string" ? [name] : []
}

function whole(answer: Answer, completions: readonly Completion[], scores: Float32Array | undefined) {
  return {
    id: answer.id,
    object: "chat.completion",
    created: answer.created,
    model: answer.model,
    choices: completions.map((completion) => ({
      index: completion.index,
      ...messageOf(answer, completion),
      logprobs: answer.logProbs === undefined ? null : chatLogProbs(answer.spelling, completion, answer.logProbs),
      stop_reason: completion.finish.stopReason,
      token_ids: answer.withTokenIds ? completion.tokenIds : null,
      routed_experts: null,
    })),
    service_tier: null,
    system_fingerprint: fingerprint,
    usage: fullUsage(answer.promptIds.length, sumOf(completions.map((completion) => completion.tokenIds.length))),
    prompt_logprobs: scores === undefined ? null : promptLogProbs(answer.spelling, answer.promptIds, scores),
    prompt_token_ids: answer.withTokenIds ? Array.from(answer.promptIds) : null,
    prompt_text: null,
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  }
}

async function* chunks(answer: Answer, job: Job): AsyncGenerator<object> {
  const base = { id: answer.id, object: "chat.completion.chunk", created: answer.created, model: answer.model }
  const prompt = answer.withTokenIds ? { prompt_token_ids: Array.from(answer.promptIds), prompt_text: null } : {}
  for (let index = 0; index < answer.n; index++)
    yield { ...base, choices: [{ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }], ...prompt }
  let completionTokens = 0
  for await (const delta of job.stream()) {
    completionTokens += delta.tokenIds.length
    const { finish } = delta
    yield {
      ...base,
      choices: [
        {
          index: delta.index,
          delta: delta.text === "" ? {} : { content: delta.text },
          logprobs: answer.logProbs === undefined ? null : chatLogProbs(answer.spelling, delta, answer.logProbs),
          finish_reason: finish?.reason ?? null,
          ...(finish === undefined ? {} : { stop_reason: finish.stopReason }),
          ...(answer.withTokenIds ? { token_ids: delta.tokenIds } : {}),
        },
      ],
      ...(finish === undefined ? {} : { system_fingerprint: fingerprint }),
    }
  }
  if (answer.includeUsage) yield { ...base, choices: [], usage: usageOf(answer.promptIds.length, completionTokens), system_fingerprint: fingerprint }
}
