// DAPO: mean over all trained tokens of the optimizer window, so a long sequence weighs more than a short one.
import { clippedSurrogate } from "./clipped.ts"
import type { ObjectiveDefinition } from "./definition.ts"

export const dapo: ObjectiveDefinition = { kind: "dapo", level: "token", reduction: "token", clips: true, surrogate: clippedSurrogate }
