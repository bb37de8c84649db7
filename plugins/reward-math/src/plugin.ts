// The plugin: one reward, `equivalence`.
import { definePlugin, defineReward, describeValue, type RewardResult, type ScoredRollout, shorten } from "@cohort/plugin"
import * as v from "valibot"
import { sameAnswer } from "./compare.ts"
import { defaultExtract, extractAnswer, referenceAnswer } from "./extract.ts"

export const mathOptions = v.strictObject({
  /** Column of the row that holds the reference. */
  column: v.optional(v.pipe(v.string(), v.nonEmpty()), "answer"),
  /** The whole completion, trimmed, must be the reference, character for character. */
  strict: v.optional(v.boolean(), false),
  /** Ways to find the answer, tried in this order. */
  extract: v.optional(v.pipe(v.array(v.picklist(["boxed", "tag", "marker", "number"])), v.minLength(1)), [...defaultExtract.methods]),
  /** Phrases that an answer follows, strongest first. */
  markers: v.optional(v.array(v.pipe(v.string(), v.nonEmpty())), [...defaultExtract.markers]),
  /** "fraction": 10% is 1/10. "ignore": 10% is 10. */
  percent: v.optional(v.picklist(["fraction", "ignore"]), "fraction"),
})

export type MathOptions = v.InferOutput<typeof mathOptions>

/** 1 when the final answer of the completion equals the reference of the row, else 0. */
export const equivalence = defineReward({
  summary: "1 when the final answer equals the reference, else 0",
  options: mathOptions,
  needs: ({ column }) => [column],
  range: [0, 1],
  deterministic: true,
  setup: (options) => (rollout) => scoreAnswer(rollout, options),
})

/**
 * The verdict on one rollout, with what was compared as the reason. A row without a usable reference is a failure that names the
 * column, never a 0.
 */
export function scoreAnswer(rollout: ScoredRollout, options: MathOptions): RewardResult {
  const { column, strict, percent } = options
  const reference = rollout.row[column]
  if (typeof reference !== "string" && typeof reference !== "number")
    return unusable(`the row ${rollout.row.id} has no text or number in the column ${JSON.stringify(column)}: ${describeValue(reference)}`)
  const expected = strict ? String(reference).trim() : referenceAnswer(String(reference))
  if (expected === "") return unusable(`the row ${rollout.row.id} has an empty reference in the column ${JSON.stringify(column)}`)
  if (strict) return verdict(rollout.text.trim() === expected, `completion ${quoted(rollout.text.trim())}`, expected)
  const found = extractAnswer(rollout.text, { methods: options.extract, markers: options.markers })
  if (found === undefined) return { kind: "ok", value: 0, reason: "the completion has no final answer" }
  const same = sameAnswer(expected, found.text, { ignorePercent: percent === "ignore", prose: found.from === "marker" || found.from === "tag" })
  return verdict(same, `${found.from} answer ${quoted(found.text)}`, expected)
}

function verdict(same: boolean, what: string, expected: string): RewardResult {
  return { kind: "ok", value: same ? 1 : 0, reason: `${what} ${same ? "equals" : "is not"} ${quoted(expected)}` }
}

function quoted(text: string): string {
  return JSON.stringify(shorten(text))
}

function unusable(error: string): RewardResult {
  return { kind: "failed", error, retryable: false }
}

export default definePlugin({ name: "reward-math", version: "0.1.0", apiVersion: 1, rewards: { equivalence } })
