// Runs an objective on the tfjs cpu backend: value, gradient with respect to the policy log-probs (and entropy), and metrics.
import "@tensorflow/tfjs-backend-cpu"
import "@tensorflow/tfjs-core/dist/register_all_gradients"
import * as tf from "@tensorflow/tfjs-core"
import { unpackMetrics } from "../src/metrics.ts"
import type { ObjectiveMetrics, ObjectiveSpec } from "../src/objective.ts"
import { policyObjective } from "../src/policy-objective.ts"
import { objectiveScalars } from "../src/scalars.ts"

tf.env().set("PROD", true)
await tf.setBackend("cpu")

export interface Case {
  readonly rows: number
  readonly length: number
  readonly logProbs: ArrayLike<number>
  readonly behavior: ArrayLike<number>
  readonly advantages: ArrayLike<number>
  readonly mask: ArrayLike<number>
  readonly weights?: ArrayLike<number>
  readonly entropy?: ArrayLike<number>
  readonly reference?: ArrayLike<number>
  readonly proximal?: ArrayLike<number>
  readonly ages?: ArrayLike<number>
  readonly sequences?: { readonly index: readonly number[]; readonly perRow: number }
}

export interface Evaluated {
  readonly loss: number
  readonly gradient: number[]
  readonly entropyGradient: number[] | undefined
  readonly metrics: ObjectiveMetrics
}

export const spec = (change: Partial<ObjectiveSpec> = {}): ObjectiveSpec => ({
  kind: "dapo",
  epsilonLow: 0.2,
  epsilonHigh: 0.28,
  temperature: 1,
  normalizer: 1,
  ...change,
})

const vector = (values: ArrayLike<number>): tf.Tensor1D => tf.tensor1d(Float32Array.from(values))

/** The loss of a batch for given log-probs and entropies; `metrics` is told the metrics. */
function lossOf(objective: ObjectiveSpec, batch: Omit<Case, "logProbs">, logProbs_N: tf.Tensor, entropy_N: tf.Tensor | undefined, metrics: (values: number[]) => void): tf.Scalar {
  const output = policyObjective(objective, {
    rows: batch.rows,
    length: batch.length,
    logProbs_N: logProbs_N as tf.Tensor1D,
    behaviorLogProbs_N: vector(batch.behavior),
    advantages_N: vector(batch.advantages),
    weights_N: vector(batch.weights ?? Array.from(batch.mask, () => 1)),
    mask_N: vector(batch.mask),
    ...(batch.reference === undefined ? {} : { referenceLogProbs_N: vector(batch.reference) }),
    ...(batch.proximal === undefined ? {} : { proximalLogProbs_N: vector(batch.proximal) }),
    ...(batch.ages === undefined ? {} : { ages_N: vector(batch.ages) }),
    ...(batch.sequences === undefined ? {} : { sequences: { index_N: tf.tensor1d([...batch.sequences.index], "int32"), perRow: batch.sequences.perRow } }),
    ...(entropy_N === undefined ? {} : { entropy_N: entropy_N as tf.Tensor1D }),
    scalars: Object.fromEntries(Object.entries(objectiveScalars(objective)).map(([name, value]) => [name, tf.scalar(value)])),
  })
  metrics([...output.metrics.dataSync()])
  return output.loss
}

export function evaluate(objective: ObjectiveSpec, batch: Case): Evaluated {
  let metrics: number[] = []
  const outcome = tf.tidy(() => {
    const loss = (logProbs_N: tf.Tensor, entropy_N?: tf.Tensor): tf.Scalar => lossOf(objective, batch, logProbs_N, entropy_N, (values) => (metrics = values))
    const inputs = batch.entropy === undefined ? [vector(batch.logProbs)] : [vector(batch.logProbs), vector(batch.entropy)]
    // With the entropy only in the metrics, tfjs refuses a gradient for it: ask for it only where the loss uses it.
    if (objective.entropyCoefficient === undefined) {
      const entropy = inputs[1]
      const { value, grad } = tf.valueAndGrad((x: tf.Tensor) => loss(x, entropy))(inputs[0]!)
      return { loss: value.dataSync()[0]!, gradient: [...grad.dataSync()], entropyGradient: undefined }
    }
    const { value, grads } = tf.valueAndGrads((x: tf.Tensor, entropy: tf.Tensor) => loss(x, entropy))(inputs)
    return { loss: value.dataSync()[0]!, gradient: [...grads[0]!.dataSync()], entropyGradient: [...grads[1]!.dataSync()] }
  })
  return { ...outcome, metrics: unpackMetrics(metrics) }
}

export interface LogitsCase extends Omit<Case, "logProbs" | "entropy"> {
  /** [N, V] row-major. */
  readonly logits: readonly number[]
  readonly targets: readonly number[]
}

/** The same from logits: the gradient is theirs, [N * V]. */
export function evaluateLogits(objective: ObjectiveSpec, batch: LogitsCase): Omit<Evaluated, "entropyGradient"> {
  const size = batch.rows * batch.length
  const vocabulary = batch.logits.length / size
  let metrics: number[] = []
  const outcome = tf.tidy(() => {
    const picked = tf.oneHot(tf.tensor1d([...batch.targets], "int32"), vocabulary)
    const { value, grad } = tf.valueAndGrad((logits_NV: tf.Tensor) => {
      const logP_NV = tf.logSoftmax(logits_NV)
      const entropy_N = tf.neg(tf.sum(tf.mul(tf.exp(logP_NV), logP_NV), 1))
      return lossOf(objective, batch, tf.sum(tf.mul(logP_NV, picked), 1), entropy_N, (values) => (metrics = values))
    })(tf.tensor2d([...batch.logits], [size, vocabulary]))
    return { loss: value.dataSync()[0]!, gradient: [...grad.dataSync()] }
  })
  return { ...outcome, metrics: unpackMetrics(metrics) }
}
