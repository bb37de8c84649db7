// When a run is to be stopped or spoken of: conditions over its metrics.
import * as v from "valibot"
import { conditionPattern } from "../condition.ts"
import { choice, int } from "../field.ts"

const condition = (doc: string) =>
  v.pipe(v.string(), v.regex(conditionPattern, 'comparisons of metrics with numbers, joined by "and", as in "truncated >= 0.9 and reward/mean <= 0"'), v.description(doc))

const guardrail = v.strictObject({
  when: condition("What must not last: comparisons of metrics with numbers, joined by `and`"),
  forSteps: v.optional(int(1, "Steps in a row for which it must hold"), 3),
  action: v.optional(choice(["stop", "warn"], "What happens then"), "stop"),
})

/** The collapses that runs are known for. */
export const guardrailsKey = v.pipe(v.array(guardrail), v.description("Conditions over metrics that stop a run, or warn, when they last"))

export const defaultGuardrails: v.InferInput<typeof guardrailsKey> = [
  { when: "truncated >= 0.9 and reward/mean <= 0", forSteps: 5, action: "stop" },
  { when: "reward/zero_spread >= 1", forSteps: 10, action: "warn" },
  { when: "repetition >= 0.6", forSteps: 5, action: "warn" },
]

/** What freshness must keep to, and what is done while it does not. */
export const sloKey = v.pipe(
  v.array(
    v.strictObject({
      keep: condition("What must hold, such as `age.p95 <= 3`"),
      forSteps: v.optional(int(1, "Steps in a row for which it must be broken before something is done"), 1),
      action: v.optional(
        choice(["warn", "throttle", "syncNow", "stop"], "Say so, let fewer groups run ahead, publish weights after this step though none are due, or stop the run"),
        "warn",
      ),
    }),
  ),
  v.description("Limits on freshness (`age/*`, `queue/age_*`, `clip/*`, `kl/*`) and what is done when they are broken"),
)
