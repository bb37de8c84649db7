// How near computed figures must be to those of a golden.
import { expect } from "bun:test"
import type { Computed, Golden } from "./golden.ts"

/** The smallest scale against which a difference counts as relative; logits here are of size 1. */
const floor = 0.05

export const norm = (values: ArrayLike<number>): number => Math.sqrt(Array.from(values).reduce((total, value) => total + value * value, 0))

export const relative = (got: number, wanted: number): number => Math.abs(got - wanted) / Math.abs(wanted)

/** Largest difference, relative to the larger of value and floor. */
export function worst(got: ArrayLike<number>, wanted: readonly number[], least = floor): number {
  expect(got.length).toBe(wanted.length)
  return wanted.reduce((most, value, i) => Math.max(most, Math.abs(got[i]! - value) / Math.max(Math.abs(value), least)), 0)
}

export function evenly(values: Float32Array): number[] {
  const stride = Math.max(1, Math.floor(values.length / 8))
  return Array.from(values).filter((_, i) => i % stride === 0).slice(0, 8)
}

/** Logits, log-probs and loss. */
export function checkForward(computed: Pick<Computed, "logits_NV" | "logProbs_N" | "loss">, golden: Golden): void {
  const length = golden.ids[0]!.length
  const vocab = golden.logits[0]!.length
  const row = (index: number): Float32Array => computed.logits_NV.subarray(index * vocab, (index + 1) * vocab)
  const lastReal = golden.trained[1]!.lastIndexOf(1) + 1
  for (const [i, at] of [0, length - 1, length + lastReal].entries()) expect(worst(row(at), golden.logits[i]!)).toBeLessThan(1e-4)
  golden.logProbs.forEach((wanted, i) => expect(worst(computed.logProbs_N.subarray(i * length, (i + 1) * length - 1), wanted)).toBeLessThan(1e-4))
  expect(relative(computed.loss, golden.loss)).toBeLessThan(1e-4)
}
