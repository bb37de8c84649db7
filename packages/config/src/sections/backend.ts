// What holds the weights and computes gradients.
import * as v from "valibot"
import { autoOr, choice } from "../field.ts"

export const backendSection = v.pipe(
  v.strictObject({
    kind: v.optional(choice(["embedded"], "The tensor runtime that comes with Cohort"), "embedded"),
    threads: v.optional(autoOr(1, "Threads of the tensor runtime"), "auto"),
    precision: v.optional(choice(["f32", "mixed", "auto"], "mixed multiplies matrices in bf16; auto does so where the machine is faster at it"), "auto"),
    compile: v.optional(choice(["auto", "xla", "graph", "eager"], "How the training step runs; auto measures at warm-up"), "auto"),
  }),
  v.description("What holds the weights and computes gradients"),
)
