// The optimizer and the length of the run.
import * as v from "valibot"
import { above, autoOr, choice, int, real, share } from "../field.ts"

export const trainSection = v.pipe(
  v.strictObject({
    steps: v.optional(int(1, "Optimizer steps of the run"), 100),
    completionsPerStep: v.optional(int(2, "Completions trained per optimizer step; a multiple of `rollout.groupSize`"), 64),
    learningRate: v.optional(above(0, "Peak learning rate of AdamW"), 1e-6),
    schedule: v.optional(choice(["constant", "linear", "cosine"], "Learning rate after warm-up: held, or down to 0 at the last step"), "constant"),
    warmupSteps: v.optional(int(0, "Steps over which the learning rate rises from 0"), 0),
    weightDecay: v.optional(real(0, "Decoupled weight decay of AdamW"), 0),
    beta1: v.optional(share("Decay of AdamW's first moment"), 0.9),
    beta2: v.optional(share("Decay of AdamW's second moment"), 0.999),
    adamEpsilon: v.optional(above(0, "Term added to AdamW's denominator"), 1e-8),
    maxGradNorm: v.optional(above(0, "Gradients are scaled down to this global norm"), 1),
    tokenBudget: v.optional(autoOr(1, "Tokens per micro-batch, prompts and padding included; auto is the longest sequence the servers allow, at least 2048"), "auto"),
    samplesPerBatch: v.exactOptional(int(1, "A fixed number of completions per micro-batch, a row each, whatever their length, in place of `train.tokenBudget`")),
    packing: v.optional(
      choice(["auto", "packed", "rows"], "Several completions a row, prompts of a group forwarded once (packed), or a row each; auto takes what is cheaper at each step. The loss is the same"),
      "auto",
    ),
    iterations: v.optional(int(1, "Optimizer passes over each batch of completions; figures of a step are means over them"), 1),
    checkpointEverySteps: v.optional(int(0, "Steps between checkpoints; 0 writes one at the end only"), 50),
    keepCheckpoints: v.optional(int(1, "Checkpoints kept; the oldest goes first"), 3),
    maxSeconds: v.exactOptional(above(0, "Stop after this time, seconds, if `train.steps` is not reached before")),
    stopAtReward: v.exactOptional(real(-Number.MAX_VALUE, "Stop once the mean reward of a step reaches this")),
  }),
  v.description("The optimizer and the length of the run"),
)
