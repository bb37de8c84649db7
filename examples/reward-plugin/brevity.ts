// A reward plugin in one file: 1 for a completion of at most `target` tokens, falling in a line to 0 at `limit`.
import { definePlugin, defineReward } from "@cohort/plugin"
import * as v from "valibot"

const tokens = v.pipe(v.number(), v.integer(), v.minValue(1))

export const brevity = defineReward({
  summary: "1 up to target tokens, falling to 0 at limit; nothing to say about a completion that was cut off",
  options: v.pipe(
    v.strictObject({ target: tokens, limit: tokens }),
    v.check(({ target, limit }) => target < limit, "target must be below limit"),
  ),
  range: [0, 1],
  deterministic: true,
  setup:
    ({ target, limit }) =>
    ({ completionIds, finishReason }) => {
      // A cut completion has no length of its own: null takes it out of this reward's mean.
      if (finishReason === "length") return null
      const value = (limit - completionIds.length) / (limit - target)
      return { kind: "ok", value: Math.min(1, Math.max(0, value)), reason: `${completionIds.length} tokens` }
    },
})

export default definePlugin({ name: "brevity", version: "0.1.0", apiVersion: 1, rewards: { brevity } })
