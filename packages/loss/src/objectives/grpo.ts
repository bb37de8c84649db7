// GRPO (DeepSeekMath): mean over the tokens of each sequence, then mean over the sequences of the window.
import { clippedSurrogate } from "./clipped.ts"
import type { ObjectiveDefinition } from "./definition.ts"

export const grpo: ObjectiveDefinition = { kind: "grpo", level: "token", reduction: "sequence", clips: true, surrogate: clippedSurrogate }
