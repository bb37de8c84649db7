// Rows that fill up, kept by the sum of squared lengths of their samples: the cost of attention, which is quadratic in length.

/** Rows looked at for one with room. */
const LOOK_AHEAD = 8

/** Open rows by load (ties: the first opened), the lightest on top. Numbers only, in typed arrays: steps of 100,000 samples are planned with it. */
export class RowHeap {
  loads = new Float64Array(16)
  tokens = new Int32Array(16)
  counts = new Int32Array(16)
  rows = 0
  readonly #budget: number
  readonly #most: number
  #heap = new Int32Array(16)
  #open = 0

  /**
   * @param rows opened at the start
   * @param budget tokens of a row
   * @param most samples of a row
   */
  constructor(rows: number, budget: number, most: number) {
    this.#budget = budget
    this.#most = most
    this.open(rows)
  }

  open(count: number): void {
    const size = this.rows + count
    if (size > this.loads.length) this.#grow(size)
    for (; this.rows < size; this.rows++) this.#push(this.rows)
  }

  /** Puts a sample into the lightest row that has room for it and returns the row; -1 when none of the lightest has. */
  place(length: number): number {
    const heap = this.#heap
    if (this.#open === 0) return -1
    const top = heap[0]!
    if (this.tokens[top]! + length <= this.#budget) {
      this.#add(top, length)
      // A full row leaves the heap: its place is taken by the last one.
      if (this.counts[top]! >= this.#most || this.tokens[top]! >= this.#budget) heap[0] = heap[--this.#open]!
      this.#sink()
      return top
    }
    const passed: number[] = []
    while (this.#open > 0 && passed.length <= LOOK_AHEAD && this.tokens[heap[0]!]! + length > this.#budget) passed.push(this.#pop())
    const found = this.#open > 0 && passed.length <= LOOK_AHEAD ? this.#pop() : -1
    if (found !== -1) {
      this.#add(found, length)
      if (this.counts[found]! < this.#most) this.#push(found)
    }
    for (const row of passed) this.#push(row)
    return found
  }

  #add(row: number, length: number): void {
    this.loads[row]! += length * length
    this.tokens[row]! += length
    this.counts[row]!++
  }

  #isLighter(a: number, b: number): boolean {
    const difference = this.loads[a]! - this.loads[b]!
    return difference < 0 || (difference === 0 && a < b)
  }

  #push(row: number): void {
    const heap = this.#heap
    let at = this.#open++
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!this.#isLighter(row, heap[parent]!)) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = row
  }

  #pop(): number {
    const top = this.#heap[0]!
    this.#heap[0] = this.#heap[--this.#open]!
    this.#sink()
    return top
  }

  #sink(): void {
    const heap = this.#heap
    const loads = this.loads
    const size = this.#open
    if (size === 0) return
    const row = heap[0]!
    const load = loads[row]!
    let at = 0
    for (let child = 1; child < size; child = 2 * at + 1) {
      let lighter = heap[child]!
      let lighterLoad = loads[lighter]!
      if (child + 1 < size) {
        const right = heap[child + 1]!
        const rightLoad = loads[right]!
        if (rightLoad < lighterLoad || (rightLoad === lighterLoad && right < lighter)) {
          child++
          lighter = right
          lighterLoad = rightLoad
        }
      }
      if (lighterLoad > load || (lighterLoad === load && lighter > row)) break
      heap[at] = lighter
      at = child
    }
    heap[at] = row
  }

  #grow(size: number): void {
    const capacity = Math.max(size, 2 * this.loads.length)
    const wider = <T extends Float64Array | Int32Array>(from: T, to: T): T => (to.set(from), to)
    this.loads = wider(this.loads, new Float64Array(capacity))
    this.tokens = wider(this.tokens, new Int32Array(capacity))
    this.counts = wider(this.counts, new Int32Array(capacity))
    this.#heap = wider(this.#heap, new Int32Array(capacity))
  }
}
