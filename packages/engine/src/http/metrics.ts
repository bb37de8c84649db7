// GET /metrics: Prometheus text under the names that vLLM's users and dashboards read.
import { Hono } from "hono"

import type { EngineMetrics, Histogram } from "../metrics.ts"
import type { Api } from "./api.ts"

export function metricsRoutes(api: Api) {
  return new Hono().get("/metrics", (context) =>
    context.body(metricsText(api.engine.metrics(), api.engine.modelName), 200, { "content-type": "text/plain; version=1.0.0; charset=utf-8" }),
  )
}

/** The whole text; one line per series. */
export function metricsText(metrics: EngineMetrics, modelName: string): string {
  const { counters, latencies } = metrics
  const lines: string[] = []
  const name = modelName.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")
  const labels = (extra = "") => `{engine="0",${extra}model_name="${name}"}`
  // Whole numbers carry ".0", as the Python client writes them.
  const number = (value: number) => (Number.isInteger(value) ? `${value}.0` : String(value))

  function series(kind: "gauge" | "counter", metric: string, help: string, values: readonly (readonly [string, number])[]): void {
    lines.push(`# HELP ${metric} ${help}`, `# TYPE ${metric} ${kind}`, ...values.map(([extra, value]) => `${metric}${labels(extra)} ${number(value)}`))
  }

  function histogram(metric: string, help: string, { bounds, counts, sum, count }: Histogram): void {
    lines.push(`# HELP ${metric} ${help}`, `# TYPE ${metric} histogram`)
    let below = 0
    counts.forEach((inBucket, index) => {
      below += inBucket
      lines.push(`${metric}_bucket${labels(`le="${index < bounds.length ? number(bounds[index]!) : "+Inf"}",`)} ${number(below)}`)
    })
    lines.push(`${metric}_sum${labels()} ${number(sum)}`, `${metric}_count${labels()} ${number(count)}`)
  }

  series("gauge", "vllm:num_requests_running", "Completions that hold a slot.", [["", metrics.running]])
  series("gauge", "vllm:num_requests_waiting", "Completions that wait for a slot.", [["", metrics.waiting]])
  series("gauge", "vllm:kv_cache_usage_perc", "Slots in use over all slots, 0 to 1.", [["", metrics.kvUsage]])
  series("counter", "vllm:num_preemptions_total", "Running completions whose cache was dropped and computed again.", [["", counters.preemptions]])
  series("counter", "vllm:prefix_cache_queries_total", "Prompt tokens looked up for a shared prefill.", [["", counters.promptTokens]])
  series("counter", "vllm:prefix_cache_hits_total", "Prompt tokens covered by another completion's prefill.", [["", counters.sharedPromptTokens]])
  series("counter", "vllm:prompt_tokens_total", "Prompt tokens of admitted completions.", [["", counters.promptTokens]])
  series("counter", "vllm:generation_tokens_total", "Generated tokens that were kept.", [["", counters.generationTokens]])
  series(
    "counter",
    "vllm:request_success_total",
    "Finished completions by reason.",
    (["stop", "length", "abort"] as const).map((reason) => [`finished_reason="${reason}",`, counters.finished[reason]] as const),
  )
  series("counter", "cohort:wasted_tokens_total", "Decoded tokens thrown away because their completion had ended inside the chunk.", [["", counters.wastedTokens]])
  series("counter", "cohort:prefill_calls_total", "Native prefill calls.", [["", counters.prefillCalls]])
  series("counter", "cohort:decode_calls_total", "Native decode calls.", [["", counters.decodeCalls]])
  histogram("vllm:time_to_first_token_seconds", "Arrival to the first token of a completion.", latencies.timeToFirstToken)
  histogram("vllm:e2e_request_latency_seconds", "Arrival to the end of a request.", latencies.endToEnd)
  histogram("cohort:weight_load_seconds", "Loading new weights.", latencies.weightLoad)
  return `${lines.join("\n")}\n`
}
