// Which compiled program runs a call. Compiling takes seconds, so a shape that a larger program can run uses that one until the time
// lost this way would have paid for a program of its own.

export interface ShelfOptions<Shape, Program> {
  readonly compile: (shape: Shape) => Program
  readonly keyOf: (shape: Shape) => string
  /** True when a program of `larger` can run a call of `smaller`. */
  readonly covers: (larger: Shape, smaller: Shape) => boolean
  /** Relative time of a call. */
  readonly costOf: (shape: Shape) => number
  /** Milliseconds, monotonic. */
  readonly now: () => number
}

export interface Shelf<Shape, Program> {
  /** Runs `call` with a program for `shape` and the shape that the program was compiled for. */
  run<Result>(shape: Shape, call: (program: Program, compiledFor: Shape) => Result): Result
  /** Shapes compiled so far. */
  readonly shapes: readonly Shape[]
  readonly programs: readonly Program[]
}

interface Entry<Shape, Program> {
  readonly shape: Shape
  readonly program: Program
  /** Time of the fastest call after the first; undefined before. */
  bestMs: number | undefined
  /** The first call compiles. */
  calls: number
}

/** Before anything was compiled: what a small program takes. */
const firstGuessMs = 2_000

export function createShelf<Shape, Program>(options: ShelfOptions<Shape, Program>): Shelf<Shape, Program> {
  const entries = new Map<string, Entry<Shape, Program>>()
  const lostMs = new Map<string, number>()
  let compileMs = firstGuessMs

  function choose(shape: Shape): Entry<Shape, Program> {
    const key = options.keyOf(shape)
    const exact = entries.get(key)
    if (exact !== undefined) return exact
    const fitting = [...entries.values()].filter((entry) => options.covers(entry.shape, shape)).toSorted((a, b) => options.costOf(a.shape) - options.costOf(b.shape))
    const [larger] = fitting
    if (larger !== undefined) {
      const lost = (lostMs.get(key) ?? 0) + (larger.bestMs ?? 0) * Math.max(0, 1 - options.costOf(shape) / options.costOf(larger.shape))
      lostMs.set(key, lost)
      if (lost < compileMs) return larger
    }
    const made = { shape, program: options.compile(shape), bestMs: undefined, calls: 0 }
    entries.set(key, made)
    return made
  }

  return {
    run(shape, call) {
      const startMs = options.now()
      const entry = choose(shape)
      const result = call(entry.program, entry.shape)
      const tookMs = options.now() - startMs
      if (entry.calls++ === 0) compileMs = tookMs
      else entry.bestMs = Math.min(entry.bestMs ?? tookMs, tookMs)
      return result
    },
    get shapes() {
      return [...entries.values()].map((entry) => entry.shape)
    },
    get programs() {
      return [...entries.values()].map((entry) => entry.program)
    },
  }
}
