// Bodies and answers of SGLang's native `/generate`, as pure functions.
import { CohortError } from "@cohort/errors"
import { arrayAt, describe, fieldsOf, malformed, type Fields } from "./answer.ts"
import { generationOf } from "./generation.ts"
import type { GenerateRequest, Generation, Sampling } from "./protocol.ts"
import { versionOfLabel } from "./versions.ts"

/**
 * Body of `POST /generate`. Several completions go as a batch of equal prompts, so that child i can have seed + i; SGLang's own `n` gives
 * all children one seed.
 *
 * @param salt becomes part of the prefix-cache key (`extra_key`)
 */
export function sglangBody(request: GenerateRequest, salt: string): Fields {
  const ids = [...request.promptIds]
  const common = { return_logprob: true, logprob_start_len: -1, return_text_in_logprobs: false, stream: false, extra_key: salt }
  if (request.n === 1) return { input_ids: ids, sampling_params: samplingParams(request.sampling, 0), ...common }
  const children = Array.from({ length: request.n }, (_, i) => i)
  return {
    input_ids: children.map(() => ids),
    sampling_params: children.map((i) => samplingParams(request.sampling, i)),
    ...common,
    extra_key: children.map(() => salt),
  }
}

function samplingParams(sampling: Sampling, child: number): Fields {
  return {
    n: 1,
    max_new_tokens: sampling.maxTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    // SGLang's word for off is -1.
    top_k: sampling.topK === 0 ? -1 : sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    stop_token_ids: sampling.stopTokenIds,
    ...(sampling.seed === undefined ? {} : { sampling_seed: sampling.seed + child }),
  }
}

export interface SglangContext {
  readonly n: number
  /** Oldest version by our own bookkeeping. */
  readonly version: number
  readonly initialVersion: number
  readonly name: string
}

/** Generations of a `/generate` answer, which is one object or a list of them. */
export function generationsOfSglang(answer: unknown, context: SglangContext): Generation[] {
  const answers = context.n === 1 && !Array.isArray(answer) ? [answer] : arrayAt(answer, `${context.name}: answer`)
  if (answers.length !== context.n) throw malformed(`${context.name}: ${answers.length} answers, ${context.n} were asked for`)
  return answers.map((one, index) => generationOfOne(one, context, `${context.name} choice ${index}`))
}

function generationOfOne(answer: unknown, context: SglangContext, where: string): Generation {
  const fields = fieldsOf(answer) ?? {}
  const meta = fieldsOf(fields.meta_info) ?? {}
  const entries = arrayAt(meta.output_token_logprobs ?? [], `${where}: output_token_logprobs`)
  const tokenIds = arrayAt(fields.output_ids ?? entries.map((entry) => at(entry, 1)), `${where}: output_ids`)
  entries.forEach((entry, i) => {
    if (i < tokenIds.length && at(entry, 1) !== tokenIds[i])
      throw malformed(`${where}: output_token_logprobs[${i}] is of token ${String(at(entry, 1))}, the token there is ${String(tokenIds[i])}`)
  })
  const finishReason = finishOf(meta.finish_reason, where)
  return generationOf({
    tokenIds,
    logProbs: entries.map((entry) => at(entry, 0)),
    finishReason,
    versions: [[0, Math.min(context.version, labelOf(meta.weight_version, context, where))]],
    where,
  })
}

/** The label is the version at the end of the answer; our own count may be older, never a label's version that is newer. */
function labelOf(label: unknown, context: SglangContext, where: string): number {
  return label === undefined || label === null ? context.version : versionOfLabel(label, context.initialVersion, where)
}

/** An abort that carries an error status is a refusal or a fault, not a pause. */
function finishOf(reason: unknown, where: string): unknown {
  const fields = fieldsOf(reason)
  if (fields === undefined) return reason
  const status = fields.status_code
  if (fields.type !== "abort" || typeof status !== "number" || status < 400) return fields.type
  const message = `${where}: ${status} ${typeof fields.message === "string" ? fields.message : describe(fields.message)}`
  throw new CohortError(status < 500 ? "inference_rejected" : "inference_failed", message, { details: { status } })
}

function at(entry: unknown, index: number): unknown {
  return Array.isArray(entry) ? entry[index] : undefined
}

/** Running and waiting requests and cache use from `/v1/loads`, one entry per data-parallel rank. */
export function loadsOf(answer: unknown): { readonly running: number; readonly waiting: number; readonly kvUsage: number } {
  const loads = fieldsOf(answer)?.loads
  const ranks = Array.isArray(loads) ? loads.map((rank) => fieldsOf(rank) ?? {}) : []
  const numbers = (key: string) => ranks.map((rank) => rank[key]).filter((value) => typeof value === "number")
  return {
    running: numbers("num_running_reqs").reduce((a, b) => a + b, 0),
    waiting: numbers("num_waiting_reqs").reduce((a, b) => a + b, 0),
    kvUsage: numbers("token_usage").reduce((a, b) => Math.max(a, b), 0),
  }
}
