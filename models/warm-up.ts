// Supervised warm-up of a policy: cross-entropy on demonstrations, AdamW, and the exact accuracy of what it would answer.
import { add, argMax, div, dispose, minimum, mul, neg, scalar, sum, type Tensor, tensor, valueAndGrads } from "@tensorflow/tfjs-core"
import { adamW, defaultAdamW, globalNorm, hiddenStates, logits, nextTokens, type Policy, targetLogProbs, type Weights } from "@cohort/model"
import type { TensorRuntime } from "@cohort/tensor"
import type { Demonstrations } from "./demonstrations.ts"

const settings = { ...defaultAdamW, weightDecay: 0.01 }
const clipNorm = 1

export interface WarmUp {
  /** One optimizer step; returns the mean loss of the trained tokens, in nats. */
  step(batch: Demonstrations, learningRate: number): number
  /** Log-prob of each next token under the policy, [rows * length], and whether it is the most likely one. */
  judge(batch: Demonstrations): { readonly logProbs: Float32Array; readonly best: Int32Array }
}

/** Compiles the train step of a policy; optimizer state starts at zero. */
export function createWarmUp(runtime: TensorRuntime, policy: Policy): WarmUp {
  const { config, specs, variables } = policy
  const names = specs.map((spec) => spec.name)
  const zeros = (prefix: string) => specs.map((spec) => runtime.variable(`${prefix}.${spec.name}`, spec.shape, "f32", new Float32Array(spec.shape.reduce((product, dim) => product * dim, 1))))
  const first = zeros("m")
  const second = zeros("v")
  const one = scalar(1)

  const logProbs = (weights: Weights, ids: Tensor, positions: Tensor): Tensor =>
    targetLogProbs(runtime.raw, logits(config, weights, hiddenStates(config, weights, ids, positions)), nextTokens(ids), one)

  const train = runtime.compile((ids, positions, trained, learningRate, correction1, correction2) => {
    const weights = policy.weights()
    const loss = valueAndGrads((...values: Tensor[]) => {
      const named = Object.fromEntries(names.map((name, i) => [name, values[i]!]))
      return neg(div(sum(mul(logProbs(named, ids!, positions!), trained!)), sum(trained!)))
    })
    const { value, grads } = loss(names.map((name) => weights[name]!))
    const scale = minimum(1, div(clipNorm, add(globalNorm(grads), 1e-6)))
    specs.forEach((spec, i) => {
      const scalars = { learningRate: learningRate!, correction1: correction1!, correction2: correction2! }
      const next = adamW(variables[i]!.value(), mul(grads[i]!, scale), first[i]!.value(), second[i]!.value(), settings, scalars, spec.decay)
      variables[i]!.assign(next.parameter)
      first[i]!.assign(next.first)
      second[i]!.assign(next.second)
    })
    return [value]
  }, { name: "warm-up step" })

  const look = runtime.compile((ids, positions) => {
    const weights = policy.weights()
    const rows = logits(config, weights, hiddenStates(config, weights, ids!, positions!))
    return [targetLogProbs(runtime.raw, rows, nextTokens(ids!), one), argMax(rows, 1)]
  }, { name: "warm-up accuracy" })

  const inputs = (batch: Demonstrations): [Tensor, Tensor] => [
    tensor(batch.ids_BL, [batch.rows, batch.length], "int32"),
    tensor(batch.ids_BL.map((_, i) => i % batch.length), [batch.rows, batch.length], "int32"),
  ]
  let steps = 0
  return {
    step(batch, learningRate) {
      steps++
      const given = [...inputs(batch), tensor(batch.trained_BL), scalar(learningRate), scalar(1 - settings.beta1 ** steps), scalar(1 - settings.beta2 ** steps)]
      const made = train(...given)
      const loss = made[0]!.dataSync()[0]!
      dispose([...given, ...made])
      return loss
    },
    judge(batch) {
      const given = inputs(batch)
      const made = look(...given)
      const result = { logProbs: made[0]!.dataSync() as Float32Array, best: made[1]!.dataSync() as Int32Array }
      dispose([...given, ...made])
      return result
    },
  }
}

/** Share of exercises answered right when the most likely token is taken each time, and expected share when sampling at temperature 1. */
export interface Accuracy {
  readonly greedy: number
  readonly sampled: number
}

/**
 * Exact, without sampling: greedy decoding gives the answer exactly when every answer token is the most likely one after those before
 * it, and sampling gives it with the product of their probabilities.
 */
export function accuracy(warmUp: WarmUp, held: Demonstrations): Accuracy {
  const { logProbs, best } = warmUp.judge(held)
  let greedy = 0
  let sampled = 0
  for (let row = 0; row < held.rows; row++) {
    let right = 1
    let total = 0
    for (let at = row * held.length; at < (row + 1) * held.length - 1; at++) {
      if (held.trained_BL[at] === 0) continue
      if (best[at] !== held.ids_BL[at + 1]) right = 0
      total += logProbs[at]!
    }
    greedy += right
    sampled += Math.exp(total)
  }
  return { greedy: greedy / held.rows, sampled: sampled / held.rows }
}
