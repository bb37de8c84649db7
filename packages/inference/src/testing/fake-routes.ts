// The two generation routes of the fake server: vLLM's request fields in, vLLM's answer shapes out.
import type { EngineChoice, FakeEngine } from "./fake-engine.ts"

export type GenerationRoute = "/v1/completions" | "/inference/v1/generate"

export interface RouteSettings {
  readonly model: string
  readonly version: string
  readonly maxModelLength: number
}

interface Parsed {
  readonly model: string
  readonly promptIds: readonly number[]
  readonly n: number
  readonly maxTokens: number
  readonly seed: number
  readonly stopTokenIds: readonly number[]
}

/** Answers one generation request; undefined when the client went away. */
export async function answerGeneration(
  engine: FakeEngine,
  settings: RouteSettings,
  route: GenerationRoute,
  body: unknown,
  signal: AbortSignal,
): Promise<{ readonly status: number; readonly body: unknown } | undefined> {
  const request = parse(engine, route, body)
  if (request.model !== settings.model)
    return refusal(404, `The model \`${request.model}\` does not exist. Valid aliases: ${settings.model}.`, "NotFoundError", "model")
  if (request.promptIds.length >= settings.maxModelLength)
    return refusal(
      400,
      `This model's maximum context length is ${settings.maxModelLength} tokens. However, your prompt contains ${request.promptIds.length} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=${request.promptIds.length})`,
      "BadRequestError",
      "input_tokens",
    )
  const choices = await engine.run({ ...request, signal })
  if (choices === undefined) return undefined
  const told = tellsVersions(settings.version)
  const shaped = route === "/v1/completions" ? choices.map(completionChoice(request.promptIds)) : choices.map(generateChoice(told))
  return { status: 200, body: { id: "fake", model: settings.model, choices: shaped } }
}

function parse(engine: FakeEngine, route: GenerationRoute, body: unknown): Parsed {
  const fields = body as Record<string, unknown>
  const sampling = (route === "/v1/completions" ? fields : fields.sampling_params) as Record<string, unknown>
  const greedy = sampling.temperature === 0
  const seed = typeof sampling.seed === "number" ? sampling.seed : engine.drawSeed()
  return {
    model: String(fields.model),
    promptIds: (route === "/v1/completions" ? fields.prompt : fields.token_ids) as number[],
    n: Number(sampling.n ?? 1),
    maxTokens: Number(sampling.max_tokens ?? 16),
    seed: greedy ? 0 : seed,
    stopTokenIds: (sampling.stop_token_ids ?? []) as number[],
  }
}

const completionChoice = (promptIds: readonly number[]) => (choice: EngineChoice, index: number) => ({
  index,
  text: "",
  logprobs: { token_logprobs: choice.logProbs, tokens: choice.tokenIds.map((id) => `token_id:${id}`) },
  finish_reason: choice.finishReason,
  stop_reason: null,
  token_ids: choice.tokenIds,
  prompt_token_ids: promptIds,
})

const generateChoice = (told: boolean) => (choice: EngineChoice, index: number) => ({
  index,
  finish_reason: choice.finishReason,
  stop_reason: null,
  token_ids: choice.tokenIds,
  weight_versions: told ? choice.versions : null,
  logprobs: { content: choice.tokenIds.map((id, i) => ({ token_id: id, logprob: choice.logProbs[i], rank: 1, top_logprobs: [] })) },
})

function tellsVersions(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  return major > 0 || minor >= 32
}

function refusal(status: number, message: string, type: string, param: string): { status: number; body: unknown } {
  return { status, body: { error: { message, type, param, code: status } } }
}
