// Samples a second of the whole loop, asynchronous, in its steady state, against TRL's GRPOTrainer on the same cores: same model folder,
// prompts, reward, group size and lengths. One JSON line per model. COHORT_BENCH_PYTHON as `setup.ts` prints it; without it no peer.
// COHORT_BENCH_CASES picks cases by a part of their name.
import { copyFile, mkdir, mkdtemp, rm } from "node:fs/promises"
import { availableParallelism, tmpdir } from "node:os"
import { join } from "node:path"
import { resolveConfig } from "@cohort/config"
import { createPolicy, parseModelConfig, randomValues, saveModelFolder } from "@cohort/model"
import { createRegistry, definePlugin, defineReward, type RewardLike, systemHost } from "@cohort/plugin"
import { findRuntime, openRuntime } from "@cohort/tensor"
import { createRun } from "@cohort/trainer"
import { startPeer } from "./peer.ts"

interface Case {
  readonly name: string
  readonly model: (folder: string) => Promise<string>
  readonly completions: number
  readonly maxTokens: number
  readonly warmUp: number
  readonly steps: number
  readonly repetitions: number
  /** What the peer may run in; the fastest is measured. */
  readonly peerForms: readonly { readonly threads: number; readonly bf16: boolean }[]
  readonly peerSteps: number
}

const threads = availableParallelism()
const groupSize = 8
const learningRate = 1e-5
const small = new URL("../models/arithmetic-1m", import.meta.url).pathname

const cases: readonly Case[] = [
  // Steps enough for what piled up during the warm-up to be used up: a queue that empties is no steady state.
  { name: "loop/quickstart-0.8M", model: () => Promise.resolve(small), completions: 256, maxTokens: 8, warmUp: 10, steps: 20, repetitions: 3, peerForms: [{ threads: 1, bf16: false }, { threads, bf16: false }], peerSteps: 4 },
  { name: "loop/random-29M", model: makeLarge, completions: 32, maxTokens: 32, warmUp: 8, steps: 8, repetitions: 3, peerForms: [{ threads, bf16: false }, { threads, bf16: true }], peerSteps: 3 },
]

/** A random model of 29 M parameters with the characters' tokenizer, filled up to its vocabulary. */
async function makeLarge(folder: string): Promise<string> {
  const vocabSize = 4096
  const lookup = findRuntime({ env: process.env })
  if (lookup.status !== "found") throw new Error(`${lookup.reason}. ${lookup.hint}`)
  await mkdir(folder, { recursive: true })
  for (const name of ["chat_template.jinja", "generation_config.json", "tokenizer_config.json"]) await copyFile(join(small, name), join(folder, name))
  const tokenizer = (await Bun.file(join(small, "tokenizer.json")).json()) as { model: { vocab: Record<string, number> } }
  for (let id = Object.keys(tokenizer.model.vocab).length; id < vocabSize; id++) tokenizer.model.vocab[`w${id}`] = id
  await Bun.write(join(folder, "tokenizer.json"), JSON.stringify(tokenizer))
  const config = parseModelConfig({ ...((await Bun.file(join(small, "config.json")).json()) as object), vocab_size: vocabSize, hidden_size: 512, num_hidden_layers: 8, num_attention_heads: 8, num_key_value_heads: 8, head_dim: 64, intermediate_size: 1536 })
  const runtime = await openRuntime({ backend: "tensorflow", libraryPath: lookup.runtime.libraryPath, threads })
  const policy = createPolicy(runtime, config, randomValues(config, 1))
  await saveModelFolder(folder, policy)
  policy.dispose()
  runtime.close()
  return folder
}

/** As in peers/trl_grpo.py. */
const rewardOf: RewardLike = ({ text, completionIds, row }) => (text.trim() === row["answer"] ? 1 : 0.1 * ((completionIds[0] ?? 0) % 2))

const prompts = Array.from({ length: 1024 }, (_, i) => {
  const [a, b] = [(i * 37) % 100, (i * 61 + 13) % 100]
  return { prompt: `${String(a).padStart(2, "0")}+${String(b).padStart(2, "0")}=`, answer: String(a + b) }
})

/** Samples a second of the steps after the warm-up. */
async function ours(one: Case, modelFolder: string, folder: string, seed: number): Promise<number> {
  const registry = createRegistry({ ...systemHost(), installDirs: [import.meta.dir] })
  registry.add(definePlugin({ name: "bench", version: "1.0.0", apiVersion: 1, rewards: { bench: defineReward({ summary: "For the bench.", setup: () => rewardOf }) } }))
  const ends: number[] = []
  const run = await createRun({
    config: resolveConfig({
      name: "loop", seed, runDir: join(folder, "runs"),
      model: { path: modelFolder },
      data: { source: join(folder, "prompts.jsonl"), maxPromptTokens: 8 },
      rewards: ["bench"],
      rollout: { groupSize, maxCompletionTokens: one.maxTokens },
      train: { steps: one.warmUp + one.steps, completionsPerStep: one.completions, learningRate, checkpointEverySteps: 0 },
    }),
    registry, projectDir: folder, env: process.env, signal: new AbortController().signal,
    onUpdate: (update) => void (update.kind === "step" && ends.push(performance.now())),
  })
  const { dropped } = await run.finished
  if (Object.keys(dropped).length > 0) throw new Error(`groups were dropped: ${JSON.stringify(dropped)}`)
  return (one.completions * one.steps) / ((ends.at(-1)! - ends[one.warmUp - 1]!) / 1000)
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)]!
const rounded = (value: number): number => Number(value.toPrecision(4))

async function measure(one: Case): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "cohort-loop-"))
  try {
    await Bun.write(join(folder, "prompts.jsonl"), prompts.map((row) => JSON.stringify(row)).join("\n"))
    const modelFolder = await one.model(join(folder, "model"))
    const python = process.env["COHORT_BENCH_PYTHON"]
    await using peer = python === undefined ? undefined : startPeer(python, new URL("./peers/trl_grpo.py", import.meta.url).pathname)
    const request = { modelFolder, prompts, groupSize, completions: one.completions, maxTokens: one.maxTokens, learningRate, seed: 1 }
    type Answer = { readonly samplesPerSecond: number }
    let form = one.peerForms[0]!
    let best = 0
    for (const candidate of peer === undefined ? [] : one.peerForms) {
      const { samplesPerSecond } = await peer!.ask<Answer>({ ...request, ...candidate, warmUp: 1, steps: 2 })
      if (samplesPerSecond > best) [form, best] = [candidate, samplesPerSecond]
    }
    const [mine, theirs]: [number[], number[]] = [[], []]
    for (let repetition = 0; repetition < one.repetitions; repetition++) {
      mine.push(await ours(one, modelFolder, folder, repetition))
      if (peer !== undefined) theirs.push((await peer.ask<Answer>({ ...request, ...form, warmUp: 1, steps: one.peerSteps })).samplesPerSecond)
    }
    const line = { name: one.name, value: rounded(median(mine)), unit: "samples/s", best: rounded(Math.max(...mine)) }
    const compared = theirs.length === 0 ? {} : { peer: "TRL GRPOTrainer", peerValue: rounded(median(theirs)), peerBest: rounded(Math.max(...theirs)), peerForm: form, ratio: rounded(median(mine) / median(theirs)) }
    process.stdout.write(`${JSON.stringify({ ...line, ...compared })}\n`)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

for (const one of cases) if (one.name.includes(process.env["COHORT_BENCH_CASES"] ?? "")) await measure(one)
