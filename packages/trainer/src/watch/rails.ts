// Conditions that must not last: each counts the steps in a row for which it held, and fires when they are enough.
import { type Condition, holds, parseCondition } from "@cohort/config"

export interface Rail<Action extends string> {
  /** As it is written in the config. */
  readonly text: string
  readonly forSteps: number
  readonly action: Action
  /** True: fires while the condition holds. False: fires while it does not. */
  readonly firesWhen: boolean
}

export interface Fired<Action extends string> {
  readonly action: Action
  readonly text: string
  readonly steps: number
  /** The condition with the values of this step. */
  readonly values: string
}

export interface Rails<Action extends string> {
  /** Figures that the conditions name, each with the condition as it is written. */
  readonly metrics: readonly { readonly metric: string; readonly text: string }[]
  /** What fires at this step. A step in which a condition has no value neither counts nor ends a row. */
  check(metrics: Readonly<Record<string, number>>): readonly Fired<Action>[]
}

/**
 * @throws CohortError `config_invalid` for text that is no condition
 * @example
 * const rails = createRails([{ text: "truncated >= 0.9", forSteps: 3, action: "stop", firesWhen: true }])
 */
export function createRails<Action extends string>(rails: readonly Rail<Action>[]): Rails<Action> {
  const parsed = rails.map((rail) => ({ ...rail, condition: parseCondition(rail.text), inRow: 0 }))
  return {
    metrics: parsed.flatMap(({ condition, text }) => condition.all.map(({ metric }) => ({ metric, text }))),
    check: (metrics) =>
      parsed.flatMap((rail): Fired<Action>[] => {
        const now = holds(rail.condition, metrics)
        if (now === undefined) return []
        rail.inRow = now === rail.firesWhen ? rail.inRow + 1 : 0
        if (rail.inRow < rail.forSteps) return []
        return [{ action: rail.action, text: rail.text, steps: rail.inRow, values: valuesOf(rail.condition, metrics) }]
      }),
  }
}

function valuesOf(condition: Condition, metrics: Readonly<Record<string, number>>): string {
  return condition.all.map(({ metric }) => `${metric} is ${Number((metrics[metric] ?? Number.NaN).toPrecision(3))}`).join(", ")
}
