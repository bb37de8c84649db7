import { expect, test } from "bun:test"
import { add, mean, mul, scalar, tensor1d, tensor2d, tidy, valueAndGrads, type Scalar, type Tensor } from "@tensorflow/tfjs-core"
import { openRuntime } from "@cohort/tensor"
import { parseModelConfig } from "./config.ts"
import { normal, uniform } from "./random.ts"
import { tokenScores } from "./token-scores.ts"

await openRuntime({ backend: "cpu" })
const [tokens, width] = [300, 8]
const config = parseModelConfig({
  architectures: ["LlamaForCausalLM"], vocab_size: 13, hidden_size: width, num_hidden_layers: 1, num_attention_heads: 1, intermediate_size: 8, max_position_embeddings: 64, tie_word_embeddings: true,
})
const next = normal(uniform(9), 1)
const hidden = Float32Array.from({ length: tokens * width }, next)
const embed = Float32Array.from({ length: 13 * width }, next)
const targets = Int32Array.from({ length: tokens }, (_, index) => (index * 5) % 13)

function run(chunksFrom: number, entropy: "none" | "measured" | "trained"): { readonly gradients: number[][]; readonly entropies: number[] | undefined } {
  let entropies: number[] | undefined
  const gradients = tidy(() =>
    valueAndGrads((h: Tensor, w: Tensor) => {
      const scores = tokenScores(config, { embed: w }, h, tensor1d(targets, "int32"), { raw: undefined, temperature: scalar(0.7), entropy, chunksFrom })
      entropies = scores.entropies_N === undefined ? undefined : [...scores.entropies_N.dataSync()]
      const logProb = mean(scores.logProbs_N)
      return (entropy === "trained" ? add(logProb, mul(0.1, mean(scores.entropies_N!))) : logProb) as Scalar
    })([tensor2d(hidden, [tokens, width]), tensor2d(embed, [13, width])]).grads.map((gradient) => [...gradient.dataSync()]),
  )
  return { gradients, entropies }
}

test.each(["none", "measured", "trained"] as const)("in parts or whole, the scores and gradients are the same (entropy %s)", (entropy) => {
  const whole = run(Infinity, entropy)
  const parts = run(tokens * 13, entropy)
  expect(parts.entropies === undefined).toBe(entropy === "none")
  for (const [at, value] of (whole.entropies ?? []).entries()) expect(parts.entropies![at]!).toBeCloseTo(value, 4)
  for (const [index, gradient] of whole.gradients.entries()) for (const [at, value] of gradient.entries()) expect(Math.abs(parts.gradients[index]![at]! - value)).toBeLessThan(2e-6)
})
