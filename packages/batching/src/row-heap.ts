// Rows that fill up, kept by the sum of squared lengths of their samples: the cost of attention, which is quadratic in length.

export interface Row<S> {
  readonly index: number
  readonly samples: S[]
  load: number
  tokens: number
}

/** Rows looked at for one with room. */
const LOOK_AHEAD = 8

const isLighter = (a: Row<unknown>, b: Row<unknown>): boolean => a.load < b.load || (a.load === b.load && a.index < b.index)

/** Open rows by load (ties: the first opened), the lightest on top. */
export class RowHeap<S> {
  readonly rows: Row<S>[] = []
  readonly #heap: Row<S>[] = []

  constructor(rows: number) {
    this.open(rows)
  }

  open(count: number): void {
    for (let index = 0; index < count; index++) {
      const row: Row<S> = { index: this.rows.length, samples: [], load: 0, tokens: 0 }
      this.rows.push(row)
      this.#push(row)
    }
  }

  /** Puts a sample into the lightest row that has room for it; false when none of the lightest has. A row of `most` samples takes no more. */
  place(sample: S, length: number, budget: number, most: number): boolean {
    const passed: Row<S>[] = []
    let row = this.#pop()
    while (row !== undefined && row.tokens + length > budget && passed.length < LOOK_AHEAD) {
      passed.push(row)
      row = this.#pop()
    }
    const fits = row !== undefined && row.tokens + length <= budget
    if (row !== undefined && fits) {
      row.samples.push(sample)
      row.tokens += length
      row.load += length * length
    }
    if (row !== undefined && row.samples.length < most && row.tokens < budget) this.#push(row)
    for (const other of passed) this.#push(other)
    return fits
  }

  #push(row: Row<S>): void {
    const heap = this.#heap
    let at = heap.push(row) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isLighter(row, heap[parent]!)) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = row
  }

  #pop(): Row<S> | undefined {
    const heap = this.#heap
    const top = heap[0]
    const last = heap.pop()
    if (top === undefined || last === undefined || heap.length === 0) return top
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isLighter(heap[child + 1]!, heap[child]!)) child++
      if (!isLighter(heap[child]!, last)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
    return top
  }
}
