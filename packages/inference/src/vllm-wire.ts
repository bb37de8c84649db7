// Bodies and answers of vLLM's two generation routes, as pure functions: request to JSON, JSON to generations.
import { arrayAt, describe, fieldsOf, malformed, type Fields } from "./answer.ts"
import { generationOf } from "./generation.ts"
import type { GenerateRequest, Generation, Sampling, VersionSpan } from "./protocol.ts"
import { spansOfLabels } from "./versions.ts"

/**
 * Every sampling field, always: what is left out would come from the model's generation_config on the server.
 * `logprobs: 0` asks for the sampled token only.
 */
function samplingFields(sampling: Sampling, n: number): Fields {
  return {
    n,
    max_tokens: sampling.maxTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    stop_token_ids: sampling.stopTokenIds,
    logprobs: 0,
    ...(sampling.seed === undefined ? {} : { seed: sampling.seed }),
  }
}

const saltField = (request: GenerateRequest): Fields => (request.cacheSalt === undefined ? {} : { cache_salt: request.cacheSalt })

/** Body of `POST /v1/completions`. */
export function completionsBody(request: GenerateRequest, model: string): Fields {
  return {
    model,
    prompt: [...request.promptIds],
    ...samplingFields(request.sampling, request.n),
    return_token_ids: true,
    ...saltField(request),
  }
}

/** Body of `POST /inference/v1/generate`. */
export function generateBody(request: GenerateRequest, model: string): Fields {
  return { model, token_ids: [...request.promptIds], sampling_params: samplingFields(request.sampling, request.n), ...saltField(request) }
}

export interface AnswerContext {
  readonly request: GenerateRequest
  /** Version for tokens that the answer says nothing about. */
  readonly version: number
  readonly initialVersion: number
  readonly name: string
}

/** Generations of a `/v1/completions` answer, in the order asked for. */
export function generationsOfCompletions(answer: unknown, context: AnswerContext): Generation[] {
  return choicesOf(answer, context).map((choice, index) => {
    const where = `${context.name} choice ${index}`
    if (!Array.isArray(choice.token_ids))
      throw malformed(`${where}: token_ids is ${describe(choice.token_ids)}`, "The server must support return_token_ids (vLLM 0.10.2 and newer).")
    checkPrompt(choice.prompt_token_ids, context.request.promptIds, where)
    const logProbs = arrayAt(fieldsOf(choice.logprobs)?.token_logprobs, `${where}: logprobs.token_logprobs`)
    return generationOf({ tokenIds: choice.token_ids, logProbs, finishReason: choice.finish_reason, versions: [[0, context.version]], where })
  })
}

/** Generations of an `/inference/v1/generate` answer, with the server's own version of each token when it tells (vLLM 0.32 and newer). */
export function generationsOfGenerate(answer: unknown, context: AnswerContext): Generation[] {
  return choicesOf(answer, context).map((choice, index) => {
    const where = `${context.name} choice ${index}`
    const tokenIds = arrayAt(choice.token_ids, `${where}: token_ids`)
    const content = arrayAt(fieldsOf(choice.logprobs)?.content, `${where}: logprobs.content`)
    content.forEach((entry, i) => checkEntry(entry, tokenIds[i], `${where}: logprobs.content[${i}]`))
    const logProbs = content.map((entry) => fieldsOf(entry)?.logprob)
    return generationOf({ tokenIds, logProbs, finishReason: choice.finish_reason, versions: versionsOf(choice, tokenIds.length, context, where), where })
  })
}

function versionsOf(choice: Fields, tokens: number, context: AnswerContext, where: string): readonly VersionSpan[] {
  if (!Array.isArray(choice.weight_versions) || tokens === 0) return [[0, context.version]]
  return spansOfLabels(choice.weight_versions, tokens, context.initialVersion, where)
}

/** An entry names its token as an integer (0.32) or as the text `token_id:N` (older); it must be the token it stands beside. */
function checkEntry(entry: unknown, tokenId: unknown, where: string): void {
  const { token_id: id, token } = fieldsOf(entry) ?? {}
  const named = id ?? (typeof token === "string" && token.startsWith("token_id:") ? Number(token.slice("token_id:".length)) : undefined)
  if (named !== undefined && tokenId !== undefined && named !== tokenId)
    throw malformed(`${where} is of token ${String(named)}, the token there is ${String(tokenId)}`)
}

function choicesOf(answer: unknown, context: AnswerContext): Fields[] {
  const choices = arrayAt(fieldsOf(answer)?.choices, `${context.name}: choices`)
  const { n } = context.request
  if (choices.length !== n) throw malformed(`${context.name}: ${choices.length} choices, ${n} were asked for`)
  const ordered: Fields[] = []
  for (const choice of choices) {
    const fields = fieldsOf(choice)
    const index = fields?.index
    if (fields === undefined || typeof index !== "number" || !(index >= 0 && index < n) || ordered[index] !== undefined)
      throw malformed(`${context.name}: choice index ${describe(index)} of ${n}`)
    ordered[index] = fields
  }
  return ordered
}

/** A server that re-tokenised or truncated the prompt would be trained on the wrong context. */
function checkPrompt(returned: unknown, sent: Int32Array, where: string): void {
  if (!Array.isArray(returned)) return
  if (returned.length !== sent.length || returned.some((id, i) => id !== sent[i]))
    throw malformed(`${where}: the server ran on ${returned.length} prompt tokens that are not the ${sent.length} sent`)
}

/** `max_model_len` of the card named `model`, else of the first card that has one (an adapter's card has none). */
export function maxModelLength(answer: unknown, model: string, name: string): number {
  const cards = arrayAt(fieldsOf(answer)?.data, `${name}: /v1/models data`).map((card) => fieldsOf(card) ?? {})
  const lengthOf = (card: Fields | undefined) => (typeof card?.max_model_len === "number" ? card.max_model_len : undefined)
  const length = lengthOf(cards.find((card) => card.id === model)) ?? cards.map(lengthOf).find((value) => value !== undefined)
  if (length === undefined) throw malformed(`${name}: /v1/models tells no max_model_len`)
  return length
}

/** Folder or hub id that the served model was started from. */
export function modelRoot(answer: unknown, model: string): string | undefined {
  const cards = fieldsOf(answer)?.data
  if (!Array.isArray(cards)) return undefined
  const root = cards.map((card) => fieldsOf(card)).find((card) => card?.id === model && (card.parent ?? null) === null)?.root
  return typeof root === "string" ? root : undefined
}

/** True for a server whose `/inference/v1/generate` tells versions per token: vLLM 0.32 and newer. */
export function tellsTokenVersions(answer: unknown): boolean {
  const version = fieldsOf(answer)?.version
  const match = typeof version === "string" ? /^(\d+)\.(\d+)/.exec(version) : null
  return match !== null && (Number(match[1]) > 0 || Number(match[2]) >= 32)
}
