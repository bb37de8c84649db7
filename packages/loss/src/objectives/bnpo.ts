// TRL's bnpo is a token mean per local batch; normalised over the optimizer window, as here, it equals dapo.
import { clippedSurrogate } from "./clipped.ts"
import type { ObjectiveDefinition } from "./definition.ts"

export const bnpo: ObjectiveDefinition = { kind: "bnpo", level: "token", reduction: "token", clips: true, surrogate: clippedSurrogate }
