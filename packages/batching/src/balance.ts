// Splits samples over equal workers (or batches) so that attention, quadratic in length, costs each of them the same.
import { CohortError } from "@cohort/errors"
import type { Sample } from "./sample.ts"

/**
 * Longest first, each sample to the part with the smallest sum of squared lengths that still has room (ties: the lowest index).
 * With at least `parts` samples no part is empty.
 *
 * @param maxPerPart most samples of a part; unlimited when absent.
 * @throws CohortError `internal` when the parts cannot hold all samples.
 * @example
 * balanceBySquares(samplesOfLengths(4, 3, 2, 1), 2) // [[4], [3, 2, 1]]: sums 16 and 14
 */
export function balanceBySquares<S extends Pick<Sample, "tokenIds">>(samples: readonly S[], parts: number, maxPerPart = Infinity): S[][] {
  if (samples.length > parts * maxPerPart)
    throw new CohortError("internal", `${samples.length} samples do not fit ${parts} parts of ${maxPerPart}`)
  const members: S[][] = Array.from({ length: parts }, () => [])
  const heap = new LoadHeap(parts)
  for (const sample of samples.toSorted((a, b) => b.tokenIds.length - a.tokenIds.length)) {
    const part = heap.lightest()
    const size = members[part]!.push(sample)
    heap.addToLightest(sample.tokenIds.length ** 2, size >= maxPerPart)
  }
  return members
}

/** Binary heap of part indices, ordered by load, then index. */
class LoadHeap {
  readonly #loads: Float64Array
  readonly #heap: number[]

  constructor(parts: number) {
    this.#loads = new Float64Array(parts)
    this.#heap = Array.from({ length: parts }, (_, index) => index)
  }

  lightest(): number {
    return this.#heap[0]!
  }

  /** Adds to the load of the lightest part, which takes no more when `full`. */
  addToLightest(load: number, full: boolean): void {
    this.#loads[this.#heap[0]!]! += load
    const last = full ? this.#heap.pop() : undefined
    if (last !== undefined && this.#heap.length > 0) this.#heap[0] = last
    this.#sink()
  }

  #before(a: number, b: number): boolean {
    const difference = this.#loads[a]! - this.#loads[b]!
    return difference < 0 || (difference === 0 && a < b)
  }

  #sink(): void {
    for (let at = 0; ; ) {
      const left = 2 * at + 1
      if (left >= this.#heap.length) return
      const right = left + 1
      const child = right < this.#heap.length && this.#before(this.#heap[right]!, this.#heap[left]!) ? right : left
      if (!this.#before(this.#heap[child]!, this.#heap[at]!)) return
      const moved = this.#heap[at]!
      this.#heap[at] = this.#heap[child]!
      this.#heap[child] = moved
      at = child
    }
  }
}
