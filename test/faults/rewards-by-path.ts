// Rewards that a run loads by path, also in its rollout thread, which takes no closures.
import type { RewardFunction } from "@cohort/env"

/** 1 for a completion with the digit 1 in it; says in its parts whether it ran in a thread. */
export const digit: RewardFunction = { score: ({ text }) => ({ kind: "ok", value: text.includes("1") ? 1 : 0, parts: { thread: Bun.isMainThread ? 0 : 1 } }) }

let calls = 0

/** Ends its thread after some calls, as a native library does that crashes. */
export const deadly: RewardFunction = {
  score: ({ completionIds }) => {
    if (++calls > 40) process.exit(9)
    return completionIds.length
  },
}
