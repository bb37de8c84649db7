// What a training step minimises.
import * as v from "valibot"
import { choice, flag, real, share } from "../field.ts"

export const objectiveSection = v.pipe(
  v.strictObject({
    kind: v.optional(
      choice(["dapo", "grpo", "bnpo", "dr_grpo"], "Mean of the token losses: over all tokens of the step (dapo, and bnpo, which is the same here), within each completion and then over them (grpo), or over the longest length allowed (dr_grpo)"),
      "dapo",
    ),
    epsilonLow: v.optional(share("The probability ratio is clipped below 1 minus this"), 0.2),
    epsilonHigh: v.optional(real(0, "The probability ratio is clipped above 1 plus this; clip-higher as in DAPO is 0.28"), 0.2),
    advantageScale: v.optional(choice(["group", "batch", "none"], "Standard deviation that advantages are divided by"), "group"),
    standardDeviation: v.optional(choice(["sample", "population"], "Divide the squares by n - 1, or by n"), "sample"),
    maskTruncated: v.optional(flag("Leave completions that hit the length limit out of the loss"), false),
  }),
  v.description("What a training step minimises"),
)
