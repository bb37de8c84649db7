// Trained tokens a second of one whole step (forward, clipped surrogate, backward, clipping, AdamW) against PyTorch eager on the same
// cores, in float32 and under bf16 autocast. One JSON line per size. COHORT_BENCH_PYTHON names a Python with torch and transformers;
// COHORT_BENCH_CASES picks sizes by a part of their name.
import { availableParallelism, totalmem } from "node:os"
import type { MicroBatch } from "@cohort/batching"
import type { ObjectiveSpec } from "@cohort/loss"
import { createPolicy, parameterCount, parameterLayout, parseModelConfig, randomValues, uniform } from "@cohort/model"
import { defaultOpenOptions, openRuntime } from "@cohort/tensor"
import { createTrainStep, type StepForm, trainerCores } from "@cohort/trainer/embedded"
import { startPeer } from "./peer.ts"

interface Size {
  readonly name: string
  readonly layers: number
  readonly hidden: number
  readonly rows: number
  readonly length: number
  readonly vocabulary: number
  /** Steps of one repetition. */
  readonly steps: number
}

const sizes: readonly Size[] = [
  { name: "train-step/0.85M", layers: 4, hidden: 128, rows: 8, length: 64, vocabulary: 512, steps: 10 },
  { name: "train-step/3.3M", layers: 4, hidden: 256, rows: 8, length: 128, vocabulary: 512, steps: 5 },
  { name: "train-step/29M", layers: 8, hidden: 512, rows: 8, length: 128, vocabulary: 4096, steps: 3 },
]
const forms: readonly StepForm[] = [
  { mode: "xla", precision: "f32" },
  { mode: "graph", precision: "f32" },
  { mode: "graph", precision: "bf16" },
]
const repetitions = Number(process.env["COHORT_BENCH_REPETITIONS"] ?? 3)
const threads = availableParallelism()

function configOf(size: Size): Record<string, unknown> {
  return {
    vocab_size: size.vocabulary, hidden_size: size.hidden, intermediate_size: 3 * size.hidden, num_hidden_layers: size.layers,
    num_attention_heads: size.hidden / 32, num_key_value_heads: size.hidden / 64, head_dim: 32, max_position_embeddings: 1024, tie_word_embeddings: true,
  }
}

function batchOf({ rows, length, vocabulary }: Size): MicroBatch {
  const size = rows * length
  const random = uniform(1)
  const fill = (value: (i: number) => number): Float32Array => Float32Array.from({ length: size }, (_, i) => value(i))
  const tokenIds = Int32Array.from({ length: size }, () => Math.floor(random() * vocabulary))
  // The peer forwards as many positions, and none of it trains the last of a row.
  const lossMask = Uint8Array.from({ length: size }, (_, i) => (i % length === length - 1 ? 0 : 1))
  return {
    rows, length, tokenIds,
    attentionMask: new Uint8Array(size).fill(1),
    positions: Int32Array.from({ length: size }, (_, i) => i % length),
    targets: tokenIds.map((_, i) => (i % length === length - 1 ? 0 : tokenIds[i + 1]!)),
    lossMask,
    // Not recorded: the ratio is 1, as in the peer.
    behaviorLogProbs: fill(() => Number.NaN),
    advantages: fill((i) => Math.sin(Math.floor(i / length))),
    weights: fill(() => 1),
    versions: new Int32Array(size),
    sampleIds: Array.from({ length: rows }, (_, row) => String(row)),
    trainedTokens: size - rows,
    forwardedTokens: size,
  }
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!

async function measure(size: Size): Promise<void> {
  const config = parseModelConfig({ architectures: ["Qwen3ForCausalLM"], ...configOf(size) })
  const parameters = parameterCount(parameterLayout(config))
  const cores = trainerCores({ cores: threads, parameters, trainedParameters: parameters, rows: size.rows, memoryBytes: totalmem() })
  const runtime = await openRuntime({ ...(await defaultOpenOptions({ env: process.env, signal: new AbortController().signal })), ...cores })
  const policy = createPolicy(runtime, config, randomValues(config, 0))
  const step = createTrainStep(runtime, { config: policy.config, trained: policy, weights: policy.weights }, { adamW: { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0.01 }, entropy: false })
  const batch = batchOf(size)
  const objective: ObjectiveSpec = { kind: "dapo", epsilonLow: 0.2, epsilonHigh: 0.2, temperature: 1, normalizer: batch.trainedTokens }
  const ours = (form: StepForm): number => {
    const seconds: number[] = []
    for (let i = 0; i < size.steps; i++) {
      const start = performance.now()
      step.forwardBackward(batch, objective, form)
      step.optimStep({ learningRate: 1e-3, maxGradNorm: 1 })
      seconds.push((performance.now() - start) / 1000)
    }
    return (size.rows * size.length) / median(seconds)
  }
  const python = process.env["COHORT_BENCH_PYTHON"]
  await using peer = python === undefined ? undefined : startPeer(python, new URL("peers/train_step.py", import.meta.url).pathname)
  const theirs = async (dtype: "f32" | "bf16"): Promise<number> =>
    (await peer!.ask({ config: configOf(size), dtype, threads, rows: size.rows, length: size.length, steps: size.steps })).tokensPerSecond
  const results: Record<string, number[]> = {}
  const note = (name: string, value: number): void => void (results[name] ??= []).push(value)
  for (const form of forms) ours(form)
  if (peer !== undefined) for (const dtype of ["f32", "bf16"] as const) await theirs(dtype)
  for (let repetition = 0; repetition < repetitions; repetition++) {
    for (const form of forms) note(`${form.mode} ${form.precision}`, ours(form))
    if (peer !== undefined) for (const dtype of ["f32", "bf16"] as const) note(`torch ${dtype}`, await theirs(dtype))
  }
  const figures = Object.fromEntries(Object.entries(results).map(([name, values]) => [name, Math.round(median(values))]))
  const best = (prefix: RegExp): number => Math.max(...Object.entries(figures).flatMap(([name, value]) => (prefix.test(name) ? [value] : [])))
  const value = best(/^(xla|graph)/)
  const peerValue = peer === undefined ? null : best(/^torch/)
  process.stdout.write(`${JSON.stringify({ name: size.name, unit: "trained tokens/s", value, peer: "PyTorch eager, the better of f32 and bf16 autocast", peerValue, ratio: peerValue === null ? null : value / peerValue, parameters, lanes: cores.lanes, figures })}\n`)
  step.dispose()
  policy.dispose()
  runtime.close()
}

for (const size of sizes) if (size.name.includes(process.env["COHORT_BENCH_CASES"] ?? "")) await measure(size)
process.exit(0)
