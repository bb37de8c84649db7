// POST /inference/v1/generate: token ids in, token ids with log-probs and weight versions out. No text is touched unless a stop string asks.
import { Hono, type Context } from "hono"

import type { Engine } from "../engine.ts"
import type { Completion } from "../request.ts"
import type { LabelSpan } from "../sequence.ts"
import type { Api } from "./api.ts"
import { readBody } from "./body.ts"
import { badRequest } from "./errors.ts"
import { readFields } from "./fields.ts"
import { fullUsage, requestBase, startJob, sumOf, usageOf, type Job } from "./job.ts"
import { generateLogProbs, promptLogProbs } from "./log-probs.ts"
import { checkIds, checkModel } from "./prompts.ts"
import { checkSampling, readLogProbs, readSampling } from "./sampling.ts"
import { eventStream } from "./sse.ts"

export function generateRoutes(api: Api) {
  return new Hono().post("/inference/v1/generate", (context) => generate(api, context))
}

async function generate(api: Api, context: Context): Promise<Response> {
  const { engine } = api
  const fields = await readBody(context)
  const ids = fields.integers("token_ids")
  if (fields.raw("token_ids") === undefined) fields.missing("token_ids")
  else if (ids?.length === 0)
    fields.report({ type: "too_short", loc: "body.token_ids", msg: "List should have at least 1 item after validation, not 0", input: ids, ctx: "{'field_type': 'List', 'min_length': 1, 'actual_length': 0}" })
  if (fields.raw("sampling_params") === undefined) fields.missing("sampling_params")
  const params = fields.object("sampling_params") ?? readFields({})
  const sampling = readSampling(params)
  const model = fields.string("model")
  const requestId = fields.string("request_id")
  const stream = fields.boolean("stream") ?? false
  const includeUsage = fields.object("stream_options")?.boolean("include_usage") ?? false
  const wanted = readLogProbs(api, params, "logprobs")
  fields.check()
  checkModel(engine, model)
  if (ids!.some((id) => id < 0)) throw badRequest("token_ids must not contain negative values", "token_ids")
  checkSampling(api, params, sampling)
  const promptIds = checkIds(engine, ids!)
  checkLength(engine, promptIds.length)

  const id = `generate-tokens-${requestBase(api, context, requestId)}`
  const job = startJob(api, context, [
    { ...sampling.request, promptIds, topLogProbs: wanted ?? 0, stream, id, ...(sampling.maxTokens === undefined ? {} : { maxTokens: sampling.maxTokens }) },
  ])
  if (stream) return eventStream(chunks(id, job, wanted, includeUsage ? promptIds.length : undefined))
  const [completions, scores] = await Promise.all([job.collect(), sampling.promptLogProbs === undefined ? undefined : engine.score(promptIds)])
  const choices = completions[0]!
  return context.json({
    request_id: id,
    model: engine.modelName,
    created: api.nowSeconds(),
    usage: fullUsage(promptIds.length, sumOf(choices.map((choice) => choice.tokenIds.length))),
    prompt_logprobs: scores === undefined ? null : promptLogProbs({ tokenizer: engine.tokenizer, asIds: false }, promptIds, scores),
    prompt_token_id_logprobs: null,
    prompt_token_ids: null,
    mm_placeholders: null,
    metrics: null,
    kv_transfer_params: null,
    ec_transfer_params: null,
    output_mode: "tokens",
    choices: choices.map((choice) => choiceOf(choice, wanted, choice.tokenIds.length)),
  })
}

function choiceOf(part: Pick<Completion, "index" | "tokenIds" | "logProbs" | "topTokens"> & Partial<Pick<Completion, "finish" | "versions">>, wanted: number | undefined, totalTokens: number) {
  return {
    index: part.index,
    finish_reason: part.finish?.reason ?? null,
    stop_reason: part.finish?.stopReason ?? null,
    token_ids: part.tokenIds,
    routed_experts: null,
    sampling_mask: null,
    weight_versions: part.versions === undefined ? null : weightVersions(part.versions, totalTokens),
    logprobs: wanted === undefined ? null : generateLogProbs(part, wanted),
  }
}

/** Half-open spans over the output tokens. */
function weightVersions(spans: readonly LabelSpan[], totalTokens: number) {
  return spans.map(([start, version], index) => ({ version, start, end: spans[index + 1]?.[0] ?? totalTokens }))
}

async function* chunks(id: string, job: Job, wanted: number | undefined, usagePromptTokens: number | undefined): AsyncGenerator<object> {
  const totals = new Map<number, number>()
  for await (const delta of job.stream()) {
    const total = (totals.get(delta.index) ?? 0) + delta.tokenIds.length
    totals.set(delta.index, total)
    const { finish, versions, ...part } = delta
    const ending = finish === undefined || versions === undefined ? {} : { finish, versions }
    yield { request_id: id, usage: null, output_mode: "tokens", choices: [choiceOf({ ...part, ...ending }, wanted, total)] }
  }
  if (usagePromptTokens !== undefined)
    yield { request_id: id, usage: usageOf(usagePromptTokens, sumOf([...totals.values()])), output_mode: "tokens", choices: [] }
}

function checkLength(engine: Engine, tokens: number): void {
  const limit = engine.contextLength
  if (tokens > limit)
    throw badRequest(`The decoder prompt (length ${tokens}) is longer than the maximum model length of ${limit}. Make sure that \`max_model_len\` is no smaller than the number of text tokens.`)
  if (tokens === limit)
    throw badRequest(`The decoder prompt (length ${tokens}) plus the number of requested output tokens (at least 1) is longer than the maximum model length of ${limit}. Make sure that \`max_model_len\` is no smaller than the number of text tokens (prompt + requested output tokens).`)
}
