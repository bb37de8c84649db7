// GSPO-token (arXiv 2507.18071, section 4.3): the value of the sequence ratio, the gradient of each token's own log-prob.
import { clippedSurrogate } from "./clipped.ts"
import type { ObjectiveDefinition } from "./definition.ts"

export const gspoToken: ObjectiveDefinition = { kind: "gspo_token", level: "sequenceToken", levelFixed: true, reduction: "sequence", clips: true, surrogate: clippedSurrogate }
