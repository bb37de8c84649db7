// Mean and standard deviation that stay honest in floating point: rewards that only differ by rounding have no spread.

export type StandardDeviation = "sample" | "population"

export interface Spread {
  readonly count: number
  readonly mean: number
  /** 0 when the values differ by less than the tolerance allows. */
  readonly deviation: number
}

/**
 * Mean and standard deviation of finite values, in two passes. "sample" divides by n - 1, "population" by n.
 * A deviation at or under `relativeTolerance` times the largest magnitude is rounding residue and becomes exactly 0:
 * three times 0.1 has a mean of 0.10000000000000002, and dividing by its deviation would give -1 for every member.
 */
export function spreadOf(values: readonly number[], kind: StandardDeviation, relativeTolerance: number): Spread {
  const count = values.length
  if (count === 0) return { count, mean: 0, deviation: 0 }
  let sum = 0
  let largest = 0
  for (const value of values) {
    sum += value
    largest = Math.max(largest, Math.abs(value))
  }
  const mean = sum / count
  let squares = 0
  for (const value of values) squares += (value - mean) ** 2
  const degrees = kind === "sample" ? count - 1 : count
  const deviation = degrees > 0 ? Math.sqrt(squares / degrees) : 0
  return { count, mean, deviation: deviation <= relativeTolerance * largest ? 0 : deviation }
}
