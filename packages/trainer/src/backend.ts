// What the training loop needs from whatever holds the weights: embedded TensorFlow, or a distributed engine.
import type { CostModel, MicroBatch } from "@cohort/batching"
import type { ObjectiveMetrics, ObjectiveSpec } from "@cohort/loss"
import type { WeightSource } from "@cohort/weight-transfer"

export interface OptimizerStep {
  readonly learningRate: number
  readonly maxGradNorm: number
}

export interface TrainerBackend {
  /** For a backend that takes rows of several samples: what a step costs, by which packing is chosen. Without it each sample gets a row of its own. */
  readonly packing?: CostModel
  /** Parts of a micro-batch that are computed side by side: its rows are best a multiple of them. 1 when absent. */
  readonly lanes?: number
  /** Adds the batch's gradients to the accumulated ones. */
  forwardBackward(batch: MicroBatch, objective: ObjectiveSpec): Promise<ObjectiveMetrics>
  /** Applies the accumulated gradients and clears them. A non-finite norm changes nothing and reports `skipped`. */
  optimStep(step: OptimizerStep): Promise<{ readonly gradNorm: number; readonly skipped: boolean }>
  /** Log-prob of the token of every prediction of the batch, logits divided by `temperature`; those of padding say nothing. One array per row, of the padded length. */
  logProbs(batch: MicroBatch, which: "policy" | "reference", temperature: number): Promise<Float32Array[]>
  /** Entropy of the policy's distribution at every prediction, nats, in the form of {@link logProbs}. */
  entropies(batch: MicroBatch, temperature: number): Promise<Float32Array[]>
  /** Reference = mix * policy + (1 - mix) * reference; from now on checkpoints hold the reference too. */
  moveReference(mix: number): Promise<void>
  weights(matrices?: "f32" | "bf16"): WeightSource
  save(dir: string): Promise<void>
  load(dir: string): Promise<void>
  close(): Promise<void>
}
