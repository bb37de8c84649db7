// The plugin: one reward, `format`. Every rule that is given must hold.
import { CohortError, definePlugin, defineReward, type ScoredRollout } from "@cohort/plugin"
import * as v from "valibot"
import { linearRegex } from "./linear-regex.ts"
import { sectionProblem } from "./sections.ts"

const length = () => v.optional(v.pipe(v.number(), v.integer(), v.minValue(0)))

export const formatOptions = v.pipe(
  v.strictObject({
    /** Must match somewhere; anchor it with ^ and $ to mean the whole text. */
    pattern: v.optional(v.pipe(v.string(), v.nonEmpty())),
    /** Any of i (no case), m (^ and $ at lines), s (. matches line ends). */
    flags: v.optional(v.pipe(v.string(), v.regex(/^(?!.*(.).*\1)[ims]*$/, "flags are i, m and s, each once")), ""),
    /** Names of tags: the text is exactly these blocks, each once, in this order. */
    sections: v.optional(v.pipe(v.array(v.pipe(v.string(), v.regex(/^[\w:-]+$/, "a tag name has letters, digits, _, : and - only"))), v.minLength(1))),
    /** The completion must have ended by itself, not at the length limit. */
    stop: v.optional(v.boolean(), false),
    minCharacters: length(),
    maxCharacters: length(),
    minTokens: length(),
    maxTokens: length(),
  }),
  v.check(({ minCharacters = 0, maxCharacters = Number.POSITIVE_INFINITY }) => minCharacters <= maxCharacters, "minCharacters is above maxCharacters"),
  v.check(({ minTokens = 0, maxTokens = Number.POSITIVE_INFINITY }) => minTokens <= maxTokens, "minTokens is above maxTokens"),
)

export type FormatOptions = v.InferOutput<typeof formatOptions>

/** What one rule finds wrong with a rollout; undefined where it holds. */
type Rule = (rollout: ScoredRollout) => string | undefined

/** 1 when the completion keeps every rule that the options give, else 0. */
export const format = defineReward({
  summary: "1 when the completion keeps the format: a pattern, tagged sections, a length, an end of its own; else 0",
  options: formatOptions,
  range: [0, 1],
  deterministic: true,
  setup(options) {
    const rules = rulesOf(options)
    return (rollout) => {
      const broken = rules.map((rule) => rule(rollout)).filter((problem) => problem !== undefined)
      return broken.length === 0 ? { kind: "ok", value: 1, reason: "the format is kept" } : { kind: "ok", value: 0, reason: broken.join("; ") }
    }
  },
})

function rulesOf(options: FormatOptions): Rule[] {
  const { pattern, flags, sections, stop } = options
  const rules: Rule[] = []
  if (pattern !== undefined) {
    const matches = linearRegex(pattern, { ignoreCase: flags.includes("i"), multiline: flags.includes("m"), dotAll: flags.includes("s") })
    rules.push(({ text }) => (matches(text) ? undefined : "the pattern does not match"))
  }
  if (sections !== undefined) rules.push(({ text }) => sectionProblem(text, sections))
  if (stop) rules.push(({ finishReason }) => (finishReason === "stop" ? undefined : `it ended by ${finishReason}, not by itself`))
  rules.push(...lengthRules("characters", ({ text }) => text.length, options.minCharacters, options.maxCharacters))
  rules.push(...lengthRules("tokens", ({ completionIds }) => completionIds.length, options.minTokens, options.maxTokens))
  if (rules.length === 0)
    throw new CohortError("config_invalid", "reward-format has no rule to check: every completion would score 1", {
      hint: "Give pattern, sections, stop, or a lowest or highest length.",
    })
  return rules
}

function lengthRules(unit: string, lengthOf: (rollout: ScoredRollout) => number, least: number | undefined, most: number | undefined): Rule[] {
  const rules: Rule[] = []
  if (least !== undefined) rules.push((rollout) => (lengthOf(rollout) >= least ? undefined : `${lengthOf(rollout)} ${unit}, fewer than ${least}`))
  if (most !== undefined) rules.push((rollout) => (lengthOf(rollout) <= most ? undefined : `${lengthOf(rollout)} ${unit}, more than ${most}`))
  return rules
}

export default definePlugin({ name: "reward-format", version: "0.1.0", apiVersion: 1, rewards: { format } })
