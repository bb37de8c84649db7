// LUSPO: GSPO's sequence ratio with each sequence weighted by its length, which undoes GSPO's preference for short answers.
import { clippedSurrogate } from "./clipped.ts"
import type { ObjectiveDefinition } from "./definition.ts"

export const luspo: ObjectiveDefinition = { kind: "luspo", level: "sequence", reduction: "sequenceSum", clips: true, surrogate: clippedSurrogate }
