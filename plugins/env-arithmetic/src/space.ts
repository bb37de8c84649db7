// The space of all problems, numbered: every index is one problem, every problem has one index.

export type Operation = "+" | "-" | "*"

export interface Problem {
  readonly terms: readonly number[]
  /** One between each two terms. */
  readonly operations: readonly Operation[]
}

export interface Space {
  readonly size: number
  at(index: number): Problem
}

/**
 * All problems of two to `maxTerms` terms, each term 0 to 10^digits - 1, joined by the given operations.
 * Size: sum over k of 10^(digits k) * operations^(k - 1).
 */
export function problemSpace(digits: number, operations: readonly Operation[], maxTerms: number): Space {
  const values = 10 ** digits
  const sizeOf = (terms: number) => values ** terms * operations.length ** (terms - 1)
  const counts = Array.from({ length: maxTerms - 1 }, (_, index) => index + 2)
  return {
    size: counts.reduce((sum, terms) => sum + sizeOf(terms), 0),
    at(index) {
      let rest = index
      let terms = 2
      while (rest >= sizeOf(terms)) rest -= sizeOf(terms++)
      const take = (base: number): number => {
        const digit = rest % base
        rest = Math.floor(rest / base)
        return digit
      }
      const taken = Array.from({ length: terms }, () => take(values))
      return { terms: taken, operations: Array.from({ length: terms - 1 }, () => operations[take(operations.length)]!) }
    },
  }
}

/** The value with the usual precedence: products first, then from left to right. Exact below 2^53. */
export function valueOf({ terms, operations }: Problem): number {
  const sums: number[] = [terms[0]!]
  operations.forEach((operation, index) => {
    const term = terms[index + 1]!
    if (operation === "*") sums.push(sums.pop()! * term)
    else sums.push(operation === "-" ? -term : term)
  })
  // Adding 0 turns -0 (0 * -term) into 0.
  return sums.reduce((sum, part) => sum + part, 0)
}
