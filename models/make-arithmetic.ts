// Makes `arithmetic-1m/`, the policy that the quickstart starts from: a tiny transformer warmed up on demonstrations by a careless
// pupil, so that it adds two-digit numbers right about half of the time and reinforcement learning has something left to teach.
// Run `bun run make` in this folder. Same seed, library and kind of CPU: same bytes.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { arithmeticTasks } from "@cohort/env-arithmetic"
import { createPolicy, learningRate, parseModelConfig, randomValues, saveModelFolder, uniform } from "@cohort/model"
import { openDefaultRuntime } from "@cohort/tensor"
import { openTokenizer } from "@cohort/tokenizer"
import { modelCard } from "./card.ts"
import { demonstrate, type Exercise } from "./demonstrations.ts"
import { carelessAnswer } from "./pupil.ts"
import { sha256Of } from "./sha256.ts"
import { accuracy, createWarmUp } from "./warm-up.ts"

/** Everything that the result depends on. */
export const recipe = { seed: 0, steps: 600, rowsPerStep: 128, learningRate: 1e-3, warmupSteps: 20, forgetsCarry: 0.72 } as const

export const folder = join(import.meta.dir, "arithmetic-1m")
const tokenizerFolder = join(import.meta.dir, "../packages/tokenizer/fixtures/char")

/** The task set of the quickstart: `37+58=`, 512 of 10,000 prompts held out. */
export const tasks = arithmeticTasks({ digits: 2, operations: ["+"], maxTerms: 2, heldOut: 512, seed: 0, style: "bare", zeroPad: true })

const modelJson = {
  architectures: ["Qwen3ForCausalLM"],
  model_type: "qwen3",
  vocab_size: 100,
  hidden_size: 128,
  intermediate_size: 384,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 32,
  hidden_act: "silu",
  max_position_embeddings: 128,
  rope_theta: 10_000,
  rms_norm_eps: 1e-6,
  attention_bias: false,
  tie_word_embeddings: true,
  use_sliding_window: false,
  initializer_range: 0.02,
  bos_token_id: null,
  eos_token_id: 2,
  pad_token_id: 0,
} as const

/** Row `index` of the prompts that are never trained on, with the right answer. */
export function heldOutExercise(index: number): Exercise {
  const row = tasks.heldOut.at(index)
  return { prompt: String(row.prompt), answer: String(row["answer"]) }
}

if (import.meta.main) {
  const runtime = await openDefaultRuntime({ env: process.env, signal: AbortSignal.timeout(30 * 60_000) })
  const tokenizer = openTokenizer(tokenizerFolder)
  const config = parseModelConfig(modelJson)
  const policy = createPolicy(runtime, config, randomValues(config, recipe.seed))
  const warmUp = createWarmUp(runtime, policy)
  const random = uniform(recipe.seed)
  const schedule = { kind: "linear", peak: recipe.learningRate, warmupSteps: recipe.warmupSteps, totalSteps: recipe.steps } as const
  const held = demonstrate(tokenizer, Array.from({ length: tasks.heldOut.size }, (_, i) => heldOutExercise(i)))
  for (let step = 0; step < recipe.steps; step++) {
    const exercises = Array.from({ length: recipe.rowsPerStep }, () => {
      const row = tasks.train.at(Math.floor(random() * tasks.train.size))
      return { prompt: String(row.prompt), answer: carelessAnswer(Number(row["a"]), Number(row["b"]), recipe.forgetsCarry, random) }
    })
    const loss = warmUp.step(demonstrate(tokenizer, exercises), learningRate(schedule, step))
    if ((step + 1) % 50 === 0) {
      const { greedy, sampled } = accuracy(warmUp, held)
      process.stdout.write(`step ${step + 1}  loss ${loss.toFixed(3)}  held-out greedy ${greedy.toFixed(3)}  sampled ${sampled.toFixed(3)}\n`)
    }
  }
  mkdirSync(folder, { recursive: true })
  await saveModelFolder(folder, policy)
  copyFileSync(join(tokenizerFolder, "tokenizer.json"), join(folder, "tokenizer.json"))
  const { chat_template, ...tokenizerConfig } = JSON.parse(readFileSync(join(tokenizerFolder, "tokenizer_config.json"), "utf8")) as Record<string, unknown>
  writeFileSync(join(folder, "chat_template.jinja"), String(chat_template))
  const writeJson = (name: string, value: object): void => writeFileSync(join(folder, name), `${JSON.stringify(value, null, 2)}\n`)
  writeJson("tokenizer_config.json", { ...tokenizerConfig, model_max_length: modelJson.max_position_embeddings })
  writeJson("generation_config.json", { do_sample: true, temperature: 1, eos_token_id: modelJson.eos_token_id, pad_token_id: modelJson.pad_token_id })
  const sha256 = await sha256Of(join(folder, "model.safetensors"))
  writeFileSync(join(folder, "README.md"), modelCard({ ...recipe, ...accuracy(warmUp, held), sha256, parameters: policy.parameters, tensorflow: runtime.info.version }))
  runtime.close()
}
