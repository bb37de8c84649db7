// Dr. GRPO: token sums over a constant, completions * maxCompletionTokens, so that length carries no bias.
import { clippedSurrogate } from "./clipped.ts"
import type { ObjectiveDefinition } from "./definition.ts"

export const drGrpo: ObjectiveDefinition = { kind: "dr_grpo", level: "token", reduction: "constant", clips: true, surrogate: clippedSurrogate }
