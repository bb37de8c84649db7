// What both forms of the decode program share: the shapes they are compiled for, and the order of their inputs.
import type { Tensor } from "@tensorflow/tfjs-core"
import type { SamplingVariant } from "./sample.ts"

export interface DecodeShape {
  readonly rows: number
  /** Cached positions that are attended, T. */
  readonly length: number
  /** Most steps of a chunk, C. */
  readonly columns: number
  readonly variant: SamplingVariant
}

/** Score of a column that a row must not see. */
export const hidden = -1e9

export interface DecodeInputs {
  /** int32 scalar */
  readonly steps: Tensor
  /** [2L, B, K, T, h] */
  readonly cache: Tensor
  readonly lastIds: Tensor
  readonly positions: Tensor
  readonly seeds: Tensor
  readonly inverseTemperature: Tensor
  /** int32, 1 for greedy rows */
  readonly greedyFlags: Tensor
  /** topK (int32), topP, minP; empty when the variant does not truncate. */
  readonly truncation: readonly Tensor[]
  /** The penalties; empty when the variant does not penalize. */
  readonly penalty: readonly Tensor[]
  /** int32 [B, V], 1 for tokens seen so far. */
  readonly seen: Tensor | undefined
}

/** Names the inputs of a decode program; rows.ts makes them in this order. */
export function readInputs(inputs: readonly Tensor[], variant: SamplingVariant): DecodeInputs {
  const [steps, cache, lastIds, positions, seeds, inverseTemperature, greedyFlags, ...more] = inputs as [Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, ...Tensor[]]
  const truncation = variant.truncates ? more.slice(0, 3) : []
  const [penalty, seen] = variant.penalizes ? more.slice(truncation.length) : []
  return { steps, cache, lastIds, positions, seeds, inverseTemperature, greedyFlags, truncation, penalty: penalty === undefined ? [] : [penalty], seen }
}
