// How far generation may run ahead of training.
import * as v from "valibot"
import { choice, int } from "../field.ts"
import { sloKey } from "./guardrails.ts"

export const stalenessSection = v.pipe(
  v.strictObject({
    maxSteps: v.optional(int(0, "Optimizer steps a sample may be behind when it is trained; 0 is on-policy"), 4),
    policy: v.optional(
      choice(["drop", "downWeight"], "What happens to older samples: dropped, or given less weight the older they are"),
      "drop",
    ),
    weightSyncSteps: v.optional(int(1, "Optimizer steps between two weight syncs to the servers"), 1),
    slo: v.optional(sloKey, []),
  }),
  v.description("How far generation may run ahead of training"),
)
