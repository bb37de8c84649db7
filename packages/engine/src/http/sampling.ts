// Sampling fields that completions, chat and generate share: read, checked, and refused where the engine could only ignore them.
import type { EngineRequest } from "../request.ts"
import type { Api } from "./api.ts"
import { badRequest } from "./errors.ts"
import type { Fields } from "./fields.ts"

export interface SamplingFields {
  readonly n: number
  readonly maxTokens: number | undefined
  readonly promptLogProbs: number | undefined
  /** The engine's own request, without prompt, log-probs and stream. */
  readonly request: Omit<EngineRequest, "promptIds" | "maxTokens">
}

/** A number as Python prints a float. */
const float = (value: number) => (Number.isInteger(value) ? `${value}.0` : String(value))

/** Reads the shared fields; call `fields.check()` before using the result. Defaults are vLLM's with `--generation-config vllm`. */
export function readSampling(fields: Fields): SamplingFields {
  const seed = fields.integer("seed")
  const stop = typeof fields.raw("stop") === "string" ? [fields.string("stop")!] : (fields.strings("stop") ?? [])
  const n = fields.integer("n") ?? 1
  const topK = fields.integer("top_k") ?? 0
  return {
    n,
    maxTokens: fields.integer("max_tokens"),
    promptLogProbs: fields.integer("prompt_logprobs"),
    request: {
      n,
      minTokens: fields.integer("min_tokens") ?? 0,
      temperature: fields.number("temperature") ?? 1,
      topP: fields.number("top_p") ?? 1,
      topK: topK === -1 ? 0 : topK,
      minP: fields.number("min_p") ?? 0,
      repetitionPenalty: fields.number("repetition_penalty") ?? 1,
      stop,
      stopTokenIds: fields.integers("stop_token_ids") ?? [],
      ignoreEos: fields.boolean("ignore_eos") ?? false,
      includeStop: fields.boolean("include_stop_str_in_output") ?? false,
      skipSpecialTokens: fields.boolean("skip_special_tokens") ?? true,
      ...(seed === undefined || seed === -1 ? {} : { seed }),
    },
  }
}

/** Throws 400 for values out of range and for fields that this engine cannot honour. */
export function checkSampling(api: Api, fields: Fields, sampling: SamplingFields): void {
  const { n, maxTokens, promptLogProbs, request } = sampling
  const refuse = (wrong: boolean, param: string, message: string, value: string | number) => {
    if (wrong) throw badRequest(message, param, value)
  }
  refuse(n < 1, "n", `n must be at least 1, got ${n}.`, n)
  refuse(n > api.maxCompletions, "n", `n must be at most ${api.maxCompletions}, got ${n}.`, n)
  refuse(!(request.temperature >= 0), "temperature", `temperature must be non-negative, got ${float(request.temperature)}.`, float(request.temperature))
  refuse(!(request.topP > 0 && request.topP <= 1), "top_p", `top_p must be in (0, 1], got ${float(request.topP)}.`, float(request.topP))
  refuse(request.topK < 0, "top_k", `top_k must be 0 (disable), or at least 1, got ${request.topK}.`, request.topK)
  refuse(!(request.minP >= 0 && request.minP <= 1), "min_p", `min_p must be in [0, 1], got ${float(request.minP)}.`, float(request.minP))
  refuse(!(request.repetitionPenalty > 0), "repetition_penalty", `repetition_penalty must be greater than zero, got ${float(request.repetitionPenalty)}.`, float(request.repetitionPenalty))
  if (maxTokens !== undefined) {
    refuse(maxTokens < 1, "max_tokens", `max_tokens must be at least 1, got ${maxTokens}.`, maxTokens)
    const minTokens = request.minTokens ?? 0
    refuse(minTokens > maxTokens, "min_tokens", `min_tokens must be less than or equal to max_tokens=${maxTokens}, got ${minTokens}.`, minTokens)
  }
  refuse((request.minTokens ?? 0) < 0, "min_tokens", `min_tokens must be greater than or equal to 0, got ${request.minTokens}.`, request.minTokens ?? 0)
  if (request.stop?.includes("") === true) throw badRequest("stop cannot contain an empty string.", "stop")
  if (promptLogProbs !== undefined && promptLogProbs !== 0)
    throw badRequest("This engine gives prompt_logprobs of the prompt's own tokens only.", "prompt_logprobs", promptLogProbs)
  for (const [name, neutral] of unsupported) {
    const value = fields.raw(name)
    if (value !== undefined && !neutral(value)) throw badRequest(`This engine does not support ${name}.`, name)
  }
}

const isZero = (value: unknown) => value === 0
const isFalse = (value: unknown) => value === false
const isEmpty = (value: unknown) => typeof value === "object" && value !== null && Object.keys(value).length === 0
const isTextFormat = (value: unknown) => typeof value === "object" && value !== null && (value as { type?: unknown }).type === "text"

/** Fields that change the answer and are not implemented, with the values that change nothing. */
const unsupported: readonly (readonly [string, (value: unknown) => boolean])[] = [
  ["presence_penalty", isZero],
  ["frequency_penalty", isZero],
  ["logit_bias", isEmpty],
  ["allowed_token_ids", () => false],
  ["bad_words", isEmpty],
  ["logprob_token_ids", isEmpty],
  ["structured_outputs", isEmpty],
  ["response_format", isTextFormat],
  ["echo", isFalse],
  ["suffix", () => false],
  ["use_beam_search", isFalse],
  ["best_of", (value) => value === 1],
  ["truncate_prompt_tokens", () => false],
]

/** `logprobs` of completions and generate: how many most likely tokens; throws 400 above the limit. */
export function readLogProbs(api: Api, fields: Fields, name: "logprobs" | "top_logprobs"): number | undefined {
  const wanted = fields.integer(name)
  if (wanted === undefined) return undefined
  if (wanted > api.maxLogProbs) throw badRequest(`Requested sample logprobs of ${wanted}, which is greater than max allowed: ${api.maxLogProbs}`, name, wanted)
  if (wanted < 0) throw badRequest(`${name} must be a non-negative value, got ${wanted}.`, name, wanted)
  return wanted
}
