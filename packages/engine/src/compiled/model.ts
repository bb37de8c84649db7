// What the compiled programs of one runner share: the model, its resident weights, the dtype of products and the rotary tables.
import type { Tensor } from "@tensorflow/tfjs-core"
import type { ModelConfig, Policy, Weights } from "@cohort/model"
import { DType, type RawOps, type TensorRuntime } from "@cohort/tensor"
import { gainsName, headGains, type Rotary, rotaryTensors } from "./layer.ts"

export interface RunnerModel {
  readonly runtime: TensorRuntime
  readonly raw: RawOps
  readonly config: ModelConfig
  readonly policy: Policy
  /** DType of matrix products and of the cache: float32 or bfloat16. */
  readonly dtype: number
  readonly rotary: Rotary
  /** Weights at this point of the trace, matrices in `dtype`, with the joined query and key gains. Call it outside loops. */
  weights(): Weights
}

export function createRunnerModel(runtime: TensorRuntime, raw: RawOps, policy: Policy, dtype: number, maxLength: number): RunnerModel {
  const { config } = policy
  const rotary = rotaryTensors(config, maxLength)
  return {
    runtime,
    raw,
    config,
    policy,
    dtype,
    rotary,
    weights() {
      const weights: Record<string, Tensor> = {}
      for (const [name, tensor] of Object.entries(policy.weights())) weights[name] = tensor.rank === 2 ? raw.cast(tensor, dtype) : raw.cast(tensor, DType.float32)
      if (config.qkNorm) for (let layer = 0; layer < config.layers; layer++) weights[gainsName(layer)] = headGains(raw, config, weights, layer)
      return weights
    },
  }
}
