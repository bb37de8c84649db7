// How far generation may run ahead of training.
import * as v from "valibot"
import { choice, int } from "../field.ts"
import { sloKey } from "./guardrails.ts"

export const stalenessSection = v.pipe(
  v.strictObject({
    maxSteps: v.optional(int(0, "Optimizer steps a sample may be behind when it is trained; 0 is on-policy"), 4),
    policy: v.optional(
      choice(
        ["pace", "drop", "downWeight", "mask"],
        "pace starts a group only if it can be trained in time; the others start all that the servers take, and drop what is older, give it less weight, or train its younger tokens alone",
      ),
      "pace",
    ),
    overdue: v.optional(
      choice(["continue", "cancel"], "Rollouts in flight that have become too old: let them end, or cut them off and free their places"),
      "continue",
    ),
    weightSyncSteps: v.optional(int(1, "Optimizer steps between two weight syncs to the servers"), 1),
    slo: v.optional(sloKey, []),
  }),
  v.description("How far generation may run ahead of training"),
)
