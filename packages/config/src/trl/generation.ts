// Options of sampling, servers and staleness.
import type { JsonValue } from "../json.ts"
import { numberOf, refuse, same, sameOrNone, seconds, type TrlFacts, type TrlRow, type TrlSetting } from "./row.ts"

/** The server that generates; in GRPOConfig only where vLLM runs apart from the trainer. */
function server({ trainer, values }: TrlFacts): TrlSetting[] {
  if (trainer === "grpo" && values["use_vllm"] !== true) return [{ path: "inference.colocated", value: true, note: "TRL generates with the trained model itself; here the embedded engine does" }]
  if (trainer === "grpo" && values["vllm_mode"] !== "server") return [{ path: "inference.colocated", value: true, note: "vLLM in the trainer's process becomes the embedded engine" }]
  const url = values["vllm_server_base_url"] ?? `http://${String(values["vllm_server_host"])}:${String(values["vllm_server_port"])}`
  return [
    { path: "inference.kind", value: "vllm" },
    { path: "inference.urls", value: [String(url).replace("://0.0.0.0", "://127.0.0.1").replace(/\/+$/, "")] },
  ]
}

const serverCell = "`inference.kind` and `inference.urls`; without a server, `inference.colocated`"
const serverRow = (option: string, example: JsonValue, beside: Readonly<Record<string, JsonValue>> = {}): TrlRow => ({ option, becomes: serverCell, example, beside, answer: (_, facts) => server(facts) })

/** Completions or rows there, groups here. */
const inGroups = (option: string, path: string, automatic: (value: number) => boolean): TrlRow => ({
  option,
  becomes: `\`${path}\` = value / num_generations, rounded up; TRL's automatic value is auto`,
  example: 64,
  answer: (value, { values }) => {
    const number = numberOf(value)
    return [{ path, value: automatic(number) ? "auto" : Math.ceil(number / numberOf(values["num_generations"])) }]
  },
})

export const generationRows: readonly TrlRow[] = [
  same("num_generations", "rollout.groupSize", 4),
  {
    option: "num_generations_eval",
    becomes: "`eval.samples`, sampled at the training temperature as TRL does; left out when null",
    example: 2,
    answer: (value, { values }) => (value === null ? [] : [{ path: "eval.samples", value }, { path: "eval.temperature", value: values["temperature"] ?? 1 }]),
  },
  same("max_completion_length", "rollout.maxCompletionTokens", 1024),
  same("temperature", "rollout.temperature", 0.7),
  same("top_p", "rollout.topP", 0.95),
  same("top_k", "rollout.topK", 50),
  sameOrNone("min_p", "rollout.minP", 0.05),
  same("repetition_penalty", "rollout.repetitionPenalty", 1.1),
  sameOrNone("chat_template_kwargs", "rollout.chatTemplateArgs", { enable_thinking: false }),
  {
    option: "max_tool_calling_iterations",
    becomes: "`rollout.maxToolRounds`, and `rollout.maxTurns` = value + 1; null, no limit, leaves ours",
    example: 3,
    answer: (value) => (value === null ? [] : [{ path: "rollout.maxToolRounds", value }, { path: "rollout.maxTurns", value: numberOf(value) + 1 }]),
  },
  same("fork_threshold_tokens", "rollout.forkThresholdTokens", 64),
  sameOrNone("max_prompt_length", "data.maxPromptTokens", 256),
  inGroups("max_inflight_tasks", "rollout.maxInflightGroups", (value) => value < 0),
  {
    option: "queue_maxsize",
    becomes: "`rollout.queueGroups` = value / num_generations; TRL's 1024 and 0, a queue without a bound, are auto",
    example: 64,
    answer: (value, { values }) => {
      const number = numberOf(value)
      return [{ path: "rollout.queueGroups", value: number === 0 || number === 1024 ? "auto" : Math.ceil(number / numberOf(values["num_generations"])) }]
    },
  },
  {
    option: "max_staleness",
    becomes: "`staleness.maxSteps` = max_staleness * weight_sync_steps: TRL counts weight syncs",
    example: 2,
    beside: { weight_sync_steps: 2 },
    answer: (value, { values }) => [{ path: "staleness.maxSteps", value: numberOf(value) * numberOf(values["weight_sync_steps"]) }],
  },
  same("weight_sync_steps", "staleness.weightSyncSteps", 2),
  seconds("heartbeat_stale_after_s", "rollout.heartbeatStaleMs", 60),
  seconds("request_timeout", "inference.requestTimeoutMs", 90),
  seconds("vllm_server_timeout", "inference.startTimeoutMs", 30),
  seconds("weight_sync_timeout", "transfer.timeoutMs", 120),
  serverRow("vllm_server_base_url", "http://10.0.0.2:9000", { use_vllm: true, vllm_mode: "server" }),
  serverRow("vllm_server_host", "10.0.0.2", { use_vllm: true, vllm_mode: "server" }),
  serverRow("vllm_server_port", 9000, { use_vllm: true, vllm_mode: "server" }),
  serverRow("use_vllm", true, { vllm_mode: "server" }),
  serverRow("vllm_mode", "server", { use_vllm: true }),
  sameOrNone("vllm_max_model_length", "inference.maxModelLength", 4096),
  {
    option: "generation_kwargs",
    becomes: "temperature, top_p, top_k, min_p and repetition_penalty in it go to `rollout`; others are not taken",
    example: { top_p: 0.9 },
    answer: (value) => {
      if (value === null) return []
      const taken: Readonly<Record<string, string>> = { temperature: "temperature", top_p: "topP", top_k: "topK", min_p: "minP", repetition_penalty: "repetitionPenalty" }
      const entries = Object.entries(value as Readonly<Record<string, JsonValue>>) // TRL takes a table or null
      const others = entries.filter(([name]) => taken[name] === undefined).map(([name]) => name)
      return others.length > 0 ? refuse(`sampling has no ${others.join(", ")}`) : entries.map(([name, inner]) => ({ path: `rollout.${taken[name]!}`, value: inner }))
    },
  },
]
