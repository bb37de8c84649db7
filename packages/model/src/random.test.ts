import { expect, test } from "bun:test"
import { parseModelConfig } from "./config.ts"
import { randomValues } from "./policy.ts"
import { normal, uniform } from "./random.ts"

test("a seed gives the same numbers for ever", () => {
  const next = uniform(0)
  expect([next(), next(), next()]).toEqual([0.26642920868471265, 0.0003297457005828619, 0.2232720274478197])
})

test("normal numbers have the mean and the deviation asked for", () => {
  const next = normal(uniform(1), 0.02)
  const values = Array.from({ length: 20_000 }, next)
  const mean = values.reduce((total, value) => total + value, 0) / values.length
  const deviation = Math.sqrt(values.reduce((total, value) => total + (value - mean) ** 2, 0) / values.length)
  expect(Math.abs(mean)).toBeLessThan(0.0006)
  expect(Math.abs(deviation - 0.02)).toBeLessThan(0.0005)
  expect(values.every(Number.isFinite)).toBe(true)
})

test("initial values: norms one, biases zero, matrices differ from each other and by seed", () => {
  const config = parseModelConfig({ architectures: ["Qwen2ForCausalLM"], vocab_size: 10, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 8 })
  const values = randomValues(config, 3)
  expect([...values("model.norm.weight", [8])]).toEqual(Array(8).fill(1))
  expect([...values("model.layers.0.self_attn.q_proj.bias", [8])]).toEqual(Array(8).fill(0))
  const q = values("model.layers.0.self_attn.q_proj.weight", [8, 8])
  expect([...values("model.layers.0.self_attn.q_proj.weight", [8, 8])]).toEqual([...q])
  expect([...values("model.layers.0.self_attn.k_proj.weight", [8, 8])]).not.toEqual([...q])
  expect([...randomValues(config, 4)("model.layers.0.self_attn.q_proj.weight", [8, 8])]).not.toEqual([...q])
})
