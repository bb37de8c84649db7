// Prompts of a request: text, ids or batches of either, encoded, checked against vocabulary and context.
import type { Engine } from "../engine.ts"
import { ApiError, badRequest } from "./errors.ts"
import type { Fields, Issue } from "./fields.ts"

/** Throws 404 unless the request means the model that is served; absent means it. */
export function checkModel(engine: Engine, model: string | undefined): void {
  if (model !== undefined && model !== engine.modelName)
    throw new ApiError(404, "NotFoundError", `The model \`${model}\` does not exist. Valid aliases: ${engine.modelName}.`, "model")
}

export type RawPrompt = string | readonly number[]

/** `prompt` of completions: string, strings, ids or lists of ids. Reports to `fields`; undefined when absent. */
export function readPrompts(fields: Fields): readonly RawPrompt[] | undefined {
  const value = fields.raw("prompt")
  if (value === undefined) return undefined
  if (typeof value === "string") return [value]
  const items: readonly unknown[] = Array.isArray(value) ? value : []
  if (Array.isArray(value) && items.length > 0) {
    if (items.every(isTokenId)) return [items]
    if (items.every((item): item is string => typeof item === "string")) return items
    if (items.every((item): item is readonly number[] => Array.isArray(item) && item.every(isTokenId))) return items
  } else if (Array.isArray(value)) return []
  for (const issue of promptIssues(value, items)) fields.report(issue)
  return undefined
}

const isTokenId = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0

/** One issue for every form that `prompt` might have had: ids, lists of ids, text, texts. */
function promptIssues(value: unknown, items: readonly unknown[]): Issue[] {
  const loc = "body.prompt"
  const text = { type: "string_type", loc, msg: "Input should be a valid string", input: value }
  if (!Array.isArray(value)) return [{ type: "list_type", loc, msg: "Input should be a valid list", input: value }, text]
  const idIssue = (item: unknown, at: string): Issue[] => {
    if (isTokenId(item)) return []
    if (!Number.isInteger(item)) return [{ type: "int_type", loc: at, msg: "Input should be a valid integer", input: item }]
    return [{ type: "greater_than_equal", loc: at, msg: "Input should be greater than or equal to 0", input: item, ctx: "{'ge': 0}" }]
  }
  return [
    ...items.flatMap((item, index) => idIssue(item, `${loc}.${index}`)),
    ...items.flatMap((item, index) =>
      Array.isArray(item)
        ? item.flatMap((id: unknown, inner) => idIssue(id, `${loc}.${index}.${inner}`))
        : [{ type: "list_type", loc: `${loc}.${index}`, msg: "Input should be a valid list", input: item }],
    ),
    text,
    ...items.flatMap((item, index) => (typeof item === "string" ? [] : [{ ...text, loc: `${loc}.${index}`, input: item }])),
  ]
}

/** Ids of a prompt, every one inside the vocabulary. */
export function encodePrompt(engine: Engine, prompt: RawPrompt, addSpecialTokens: boolean): Int32Array {
  if (typeof prompt === "string") return engine.tokenizer.encode(prompt, { addSpecialTokens })
  return checkIds(engine, prompt)
}

export function checkIds(engine: Engine, ids: readonly number[]): Int32Array {
  const outside = ids.find((id) => id >= engine.info.vocabSize)
  if (outside !== undefined) throw badRequest(`Token id ${outside} is out of vocabulary`)
  return Int32Array.from(ids)
}

/** Room for output in completions and chat; throws 400 as vLLM does when prompt and `maxTokens` do not fit together. */
export function fitContext(engine: Engine, promptTokens: number, maxTokens: number | undefined, defaultTokens: number): number {
  const limit = engine.contextLength
  const start = `This model's maximum context length is ${limit} tokens. However, `
  if (promptTokens > limit)
    throw badRequest(`${start}your prompt contains ${promptTokens} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.`, "input_tokens", promptTokens)
  if (maxTokens !== undefined && maxTokens > limit)
    throw badRequest(`max_tokens=${maxTokens} cannot be greater than max_model_len=${limit}. Please request fewer output tokens.`, "max_tokens", maxTokens)
  const room = limit - promptTokens
  const wanted = maxTokens ?? Math.max(1, Math.min(defaultTokens, room))
  if (wanted > room)
    throw badRequest(`${start}you requested ${wanted} output tokens and your prompt contains at least ${promptTokens} input tokens, for a total of at least ${promptTokens + wanted} tokens. Please reduce the length of the input prompt or the number of requested output tokens.`, "input_tokens", promptTokens)
  return wanted
}
