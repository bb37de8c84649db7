// Samples for tests.
import type { Sample } from "../src/sample.ts"

/** A sample of `length` tokens whose last `completion` tokens are trained (all but the first when absent). */
export function sampleOf(length: number, id = `s${length}`, completion = Math.max(0, length - 1)): Sample {
  const first = length - completion
  const trained = (index: number): boolean => index >= first
  return {
    id,
    groupId: "g",
    rolloutId: id,
    tokenIds: Int32Array.from({ length }, (_, index) => index + 1),
    lossMask: Uint8Array.from({ length }, (_, index) => (trained(index) ? 1 : 0)),
    behaviorLogProbs: Float32Array.from({ length }, (_, index) => (trained(index) ? -0.5 - index : 0)),
    versions: Int32Array.from({ length }, (_, index) => (trained(index) ? 3 : -1)),
    advantage: 1,
    weight: 1,
    truncated: false,
  }
}
