// Conditions over metrics as people write them: "truncated >= 0.9 and reward/mean <= 0". Guardrails and freshness limits are made of them.
import { CohortError } from "@cohort/errors"

const operators = {
  "<=": (value: number, limit: number) => value <= limit,
  ">=": (value: number, limit: number) => value >= limit,
  "<": (value: number, limit: number) => value < limit,
  ">": (value: number, limit: number) => value > limit,
  "==": (value: number, limit: number) => value === limit,
} as const

export interface Comparison {
  /** Name of a metric, `age/p95`; a dot is read as a slash. */
  readonly metric: string
  readonly operator: keyof typeof operators
  readonly limit: number
}

/** Comparisons that must all hold. */
export interface Condition {
  readonly text: string
  readonly all: readonly Comparison[]
}

const part = String.raw`([A-Za-z][\w./-]*)\s*(<=|>=|==|<|>)\s*(-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)`
const comparison = new RegExp(`^${part}$`)

/** What {@link parseCondition} reads, for schemas. */
export const conditionPattern = new RegExp(String.raw`^\s*${part}(\s+and\s+${part})*\s*$`)

/**
 * Reads a condition.
 *
 * @throws CohortError `config_invalid` naming the part that is no comparison.
 * @example
 * parseCondition("age.p95 <= 3").all // [{ metric: "age/p95", operator: "<=", limit: 3 }]
 */
export function parseCondition(text: string): Condition {
  const all = text.trim().split(/\s+and\s+/).map((written): Comparison => {
    const match = comparison.exec(written.trim())
    if (match === null)
      throw new CohortError("config_invalid", `"${written}" is no comparison of a metric with a number`, { hint: 'Write it like "truncated >= 0.9 and reward/mean <= 0".' })
    return { metric: match[1]!.replaceAll(".", "/"), operator: match[2] as keyof typeof operators, limit: Number(match[3]) }
  })
  return { text: text.trim(), all }
}

/** Whether a condition holds for a step's metrics; undefined when one of its metrics has no value there. */
export function holds(condition: Condition, metrics: Readonly<Record<string, number>>): boolean | undefined {
  let unknown = false
  for (const { metric, operator, limit } of condition.all) {
    const value = metrics[metric]
    if (value === undefined || Number.isNaN(value)) unknown = true
    else if (!operators[operator](value, limit)) return false
  }
  return unknown ? undefined : true
}
