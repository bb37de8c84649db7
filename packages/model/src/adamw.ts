// AdamW as a pure update of one parameter (Decoupled Weight Decay Regularization, arXiv:1711.05101, algorithm 2), and the global
// gradient norm.
import { add, addN, div, mul, sqrt, square, sub, sum, type Tensor } from "@tensorflow/tfjs-core"
import type { RawOps } from "@cohort/tensor"

export interface AdamWSettings {
  readonly beta1: number
  readonly beta2: number
  readonly epsilon: number
  readonly weightDecay: number
}

export const defaultAdamW: AdamWSettings = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0 }

/** Scalars of one step, as tensors so that a traced update serves every step. */
export interface AdamWScalars {
  readonly learningRate: Tensor
  /** 1 - beta1^t and 1 - beta2^t, t counting from 1. */
  readonly correction1: Tensor
  readonly correction2: Tensor
}

/** New parameter and moments from a gradient; float32 state. */
export function adamW(parameter: Tensor, gradient: Tensor, first: Tensor, second: Tensor, settings: AdamWSettings, scalars: AdamWScalars, decay: boolean): { parameter: Tensor; first: Tensor; second: Tensor } {
  const m = add(mul(first, settings.beta1), mul(gradient, 1 - settings.beta1))
  const v = add(mul(second, settings.beta2), mul(square(gradient), 1 - settings.beta2))
  const direction = div(div(m, scalars.correction1), add(sqrt(div(v, scalars.correction2)), settings.epsilon))
  const decayed = decay && settings.weightDecay !== 0 ? mul(parameter, sub(1, mul(scalars.learningRate, settings.weightDecay))) : parameter
  return { parameter: sub(decayed, mul(scalars.learningRate, direction)), first: m, second: v }
}

/**
 * L2 norm over all gradients together; a scalar.
 *
 * @param raw with it, and traced as a graph, the sums run on all cores: XLA adds them up one by one, five times as long
 */
export function globalNorm(gradients: readonly Tensor[], raw?: RawOps): Tensor {
  if (raw === undefined) return sqrt(addN(gradients.map((gradient) => sum(square(gradient)))))
  return sqrt(mul(2, addN(gradients.map((gradient) => raw.l2Loss(gradient)))))
}
