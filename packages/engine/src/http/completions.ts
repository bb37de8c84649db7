// POST /v1/completions: text or token ids in, n completions of every prompt out.
import { Hono, type Context } from "hono"

import type { Completion } from "../request.ts"
import { fingerprint, type Api } from "./api.ts"
import { readBody } from "./body.ts"
import { badRequest } from "./errors.ts"
import { fullUsage, requestBase, startJob, sumOf, usageOf, type Job } from "./job.ts"
import { completionLogProbs, promptLogProbs, spelledLength, type TokenSpelling } from "./log-probs.ts"
import { checkModel, encodePrompt, fitContext, readPrompts } from "./prompts.ts"
import { checkSampling, readLogProbs, readSampling } from "./sampling.ts"
import { eventStream } from "./sse.ts"

interface Answer {
  readonly id: string
  readonly created: number
  readonly model: string
  readonly prompts: readonly Int32Array[]
  readonly n: number
  /** `logprobs` of the request; undefined: none wanted. */
  readonly logProbs: number | undefined
  readonly withTokenIds: boolean
  readonly includeUsage: boolean
  readonly spelling: TokenSpelling
}

export function completionsRoutes(api: Api) {
  return new Hono().post("/v1/completions", (context) => complete(api, context))
}

async function complete(api: Api, context: Context): Promise<Response> {
  const { engine } = api
  const fields = await readBody(context)
  const prompts = readPrompts(fields)
  const sampling = readSampling(fields)
  const model = fields.string("model")
  const requestId = fields.string("request_id")
  const stream = fields.boolean("stream") ?? false
  const addSpecialTokens = fields.boolean("add_special_tokens") ?? true
  const withTokenIds = fields.boolean("return_token_ids") ?? false
  const asIds = fields.boolean("return_tokens_as_token_ids") ?? api.tokensAsIds
  const includeUsage = fields.object("stream_options")?.boolean("include_usage") ?? false
  const logProbs = readLogProbs(api, fields, "logprobs")
  fields.check()
  checkModel(engine, model)
  if (prompts === undefined) throw badRequest("Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)", "prompt")
  if (prompts.length === 0) throw badRequest("You must pass at least one prompt")
  checkSampling(api, fields, sampling)
  if (stream && sampling.promptLogProbs !== undefined) throw badRequest("`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs")

  const promptIds = prompts.map((prompt) => encodePrompt(engine, prompt, addSpecialTokens))
  const id = `cmpl-${requestBase(api, context, requestId)}`
  const requests = promptIds.map((ids, index) => ({
    ...sampling.request,
    promptIds: ids,
    maxTokens: fitContext(engine, ids.length, sampling.maxTokens, 16),
    topLogProbs: logProbs ?? 0,
    text: true,
    stream,
    id: `${id}-${index}`,
  }))
  const answer: Answer = {
    id,
    created: api.nowSeconds(),
    model: engine.modelName,
    prompts: promptIds,
    n: sampling.n,
    logProbs,
    withTokenIds,
    includeUsage,
    spelling: { tokenizer: engine.tokenizer, asIds },
  }
  const job = startJob(api, context, requests)
  if (stream) return eventStream(chunks(answer, job))
  const [completions, scores] = await Promise.all([
    job.collect(),
    sampling.promptLogProbs === undefined ? undefined : Promise.all(promptIds.map((ids) => engine.score(ids))),
  ])
  return context.json(whole(answer, completions, scores))
}

function whole(answer: Answer, completions: readonly (readonly Completion[])[], scores: readonly Float32Array[] | undefined) {
  const choices = completions.flatMap((ofPrompt, prompt) => {
    const ids = answer.prompts[prompt]!
    const scored = scores === undefined ? null : promptLogProbs(answer.spelling, ids, scores[prompt]!)
    return ofPrompt.map((completion) => ({
      index: completion.index,
      text: completion.text,
      logprobs: answer.logProbs === undefined ? null : completionLogProbs(answer.spelling, completion, answer.logProbs),
      finish_reason: completion.finish.reason,
      stop_reason: completion.finish.stopReason,
      token_ids: answer.withTokenIds ? completion.tokenIds : null,
      prompt_logprobs: scored,
      prompt_token_ids: answer.withTokenIds ? Array.from(ids) : null,
      routed_experts: null,
    }))
  })
  return {
    id: answer.id,
    object: "text_completion",
    created: answer.created,
    model: answer.model,
    choices,
    service_tier: null,
    system_fingerprint: fingerprint,
    usage: fullUsage(sumOf(answer.prompts.map((ids) => ids.length)), sumOf(completions.flat().map((completion) => completion.tokenIds.length))),
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  }
}

async function* chunks(answer: Answer, job: Job): AsyncGenerator<object> {
  const base = { id: answer.id, object: "text_completion", created: answer.created, model: answer.model }
  const offsets = new Map<number, number>()
  let completionTokens = 0
  for await (const delta of job.stream()) {
    const offset = offsets.get(delta.index)
    const first = offset === undefined
    completionTokens += delta.tokenIds.length
    offsets.set(delta.index, (offset ?? 0) + spelledLength(answer.spelling, delta.tokenIds))
    const tokenIds = answer.withTokenIds ? { prompt_token_ids: first ? Array.from(answer.prompts[delta.prompt]!) : null, token_ids: delta.tokenIds } : {}
    yield {
      ...base,
      choices: [
        {
          index: delta.index,
          text: delta.text,
          logprobs: answer.logProbs === undefined ? null : completionLogProbs(answer.spelling, delta, answer.logProbs, offset),
          finish_reason: delta.finish?.reason ?? null,
          stop_reason: delta.finish?.stopReason ?? null,
          ...tokenIds,
        },
      ],
    }
  }
  if (answer.includeUsage)
    yield { ...base, choices: [], usage: usageOf(sumOf(answer.prompts.map((ids) => ids.length)), completionTokens), system_fingerprint: fingerprint }
}
