// What a rule between settings is.
import type { RunShape } from "./shape.ts"

/** A combination that cannot work. */
export interface Rule {
  /** Paths read; the first one is where the problem is reported. */
  readonly reads: readonly [string, ...string[]]
  /** What must hold and how to get there, or undefined when it holds. */
  readonly check: (config: RunShape) => { readonly expected: string; readonly fix: string } | undefined
}
