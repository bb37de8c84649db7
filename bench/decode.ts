// Tokens a second that the embedded engine's runner samples, with log-probs, against transformers' `generate` on the same cores.
// One JSON line per figure. COHORT_BENCH_PYTHON names a Python with torch and transformers; without it the peer is left out.
// COHORT_BENCH_CASES picks cases by a part of their name.
import { availableParallelism } from "node:os"
import { createCompiledRunner, type DecodeForm } from "@cohort/engine/compiled"
import type { ModelRunner } from "@cohort/engine"
import { createPolicy, parseModelConfig, randomValues } from "@cohort/model"
import { findRuntime, openRuntime } from "@cohort/tensor"
import { startPeer } from "./peer.ts"

interface Case {
  readonly name: string
  readonly config: Readonly<Record<string, unknown>>
  readonly batch: number
  readonly tokens: number
  readonly repetitions: number
  readonly dtype: "f32" | "bf16"
  readonly form: DecodeForm
  /** Threads of our runtime, as the engine chooses them by size. */
  readonly threads: number
}

const threads = availableParallelism()
const quickstart = { architectures: ["Qwen3ForCausalLM"], model_type: "qwen3", vocab_size: 100, hidden_size: 128, num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 32, intermediate_size: 384, max_position_embeddings: 512, tie_word_embeddings: true }
const smol = { architectures: ["LlamaForCausalLM"], model_type: "llama", vocab_size: 49_152, hidden_size: 576, num_hidden_layers: 30, num_attention_heads: 9, num_key_value_heads: 3, head_dim: 64, intermediate_size: 1536, max_position_embeddings: 2048, tie_word_embeddings: true }

const cases: readonly Case[] = [
  { name: "decode/quickstart-0.8M/f32/16", config: quickstart, batch: 16, tokens: 96, repetitions: 5, dtype: "f32", form: "loop", threads: 1 },
  { name: "decode/smollm2-135M/f32/16", config: smol, batch: 16, tokens: 32, repetitions: 2, dtype: "f32", form: "loop", threads },
  { name: "decode/smollm2-135M/bf16/16", config: smol, batch: 16, tokens: 32, repetitions: 2, dtype: "bf16", form: "mixed", threads },
  { name: "decode/smollm2-135M/bf16/64", config: smol, batch: 64, tokens: 32, repetitions: 2, dtype: "bf16", form: "mixed", threads },
]
const promptTokens = 16
const chunk = 32

/** Prefill and decode of one batch of completions of one prompt: tokens a second. */
async function sampleBatch(runner: ModelRunner, { batch, tokens }: Case, seed: number): Promise<number> {
  const prompt = Int32Array.from({ length: promptTokens }, (_, i) => (i * 7 + seed) % 90)
  const slots = Array.from({ length: batch }, (_, slot) => slot)
  const startMs = performance.now()
  await runner.prefill([{ tokenIds: prompt.subarray(0, -1), slots }])
  let last: readonly number[] = slots.map(() => prompt.at(-1)!)
  for (let done = 0; done < tokens; done += chunk) {
    const inputs = slots.map((slot) => ({ slot, lastToken: last[slot]!, position: promptTokens - 1 + done, seed: seed * 1000 + slot, temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1, history: new Int32Array(0) }))
    const out = await runner.decode(inputs, chunk, 0)
    if (out.logProbs.some((logProb) => !(logProb <= 0))) throw new Error("a log-prob is not a log-prob")
    last = slots.map((row) => out.tokenIds[row * chunk + chunk - 1]!)
  }
  return (batch * tokens) / ((performance.now() - startMs) / 1000)
}

async function fastestThreads(ask: (count: number) => Promise<{ readonly tokensPerSecond: number }>): Promise<number> {
  let best = { count: threads, tokensPerSecond: 0 }
  for (const count of new Set([1, threads])) {
    await ask(count)
    const { tokensPerSecond } = await ask(count)
    if (tokensPerSecond > best.tokensPerSecond) best = { count, tokensPerSecond }
  }
  return best.count
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)]!
const rounded = (value: number): number => Number(value.toPrecision(4))

async function measure(one: Case): Promise<void> {
  const lookup = findRuntime({ env: process.env })
  if (lookup.status !== "found") throw new Error(`${lookup.reason}. ${lookup.hint}`)
  const { name, batch, tokens, dtype, form } = one
  const runtime = await openRuntime({ backend: "tensorflow", libraryPath: lookup.runtime.libraryPath, threads: one.threads })
  const python = process.env.COHORT_BENCH_PYTHON
  await using peer = python === undefined ? undefined : startPeer(python, new URL("./peers/generate.py", import.meta.url).pathname)
  const config = parseModelConfig(one.config)
  const policy = createPolicy(runtime, config, randomValues(config, 1), dtype)
  const runner = createCompiledRunner({ runtime, model: { policy }, slots: batch, maxModelLength: 128, dtype, maxChunk: chunk, form })
  const { architectures: _, ...peerConfig } = one.config
  const request = { config: peerConfig, dtype: dtype === "bf16" ? "bfloat16" : "float32", batch, promptTokens, tokens }
  const ours: number[] = []
  const theirs: number[] = []
  await sampleBatch(runner, one, 0)
  // A small model is faster on one thread than on two that wait for each other: the peer gets what suits it.
  const peerThreads = peer === undefined ? threads : await fastestThreads((count) => peer.ask({ ...request, threads: count, tokens: 8 }))
  // Both take turns, so that a busy machine hits both.
  for (let repetition = 0; repetition < one.repetitions; repetition++) {
    ours.push(await sampleBatch(runner, one, repetition + 1))
    if (peer !== undefined) theirs.push((await peer.ask({ ...request, threads: peerThreads })).tokensPerSecond)
  }
  const value = median(ours)
  const line = { name, value: rounded(value), unit: "tokens/s", best: rounded(Math.max(...ours)), form, threads: one.threads }
  const peerValue = theirs.length === 0 ? undefined : median(theirs)
  process.stdout.write(`${JSON.stringify(peerValue === undefined ? line : { ...line, peer: "transformers generate", peerValue: rounded(peerValue), peerBest: rounded(Math.max(...theirs)), peerThreads, ratio: rounded(value / peerValue) })}\n`)
  await runner.close()
  policy.dispose()
  runtime.close()
}

// Each case in a process of its own: threads are a matter of the process.
const [wanted] = process.argv.slice(2)
const chosen = cases.find(({ name }) => name === wanted)
if (chosen !== undefined) await measure(chosen)
else
  for (const { name } of cases.filter((one) => one.name.includes(process.env.COHORT_BENCH_CASES ?? ""))) {
    const child = Bun.spawn([process.execPath, import.meta.path, name], { stdout: "inherit", stderr: "inherit" })
    if ((await child.exited) !== 0) process.exitCode = 1
  }
