// Evaluation between training steps.
import * as v from "valibot"
import { int, real } from "../field.ts"

export const evalSection = v.pipe(
  v.strictObject({
    everySteps: v.optional(int(0, "Steps between evaluations; 0 evaluates at start and end only"), 0),
    prompts: v.optional(int(1, "Prompts taken from the evaluation source"), 64),
    temperature: v.optional(real(0, "Sampling temperature; 0 is greedy"), 0),
    samples: v.optional(int(1, "Completions per prompt"), 1),
  }),
  v.description("Evaluation; runs where there is an evaluation source"),
)
