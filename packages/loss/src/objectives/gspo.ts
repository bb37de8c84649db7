// GSPO (arXiv 2507.18071): one ratio per sequence, the geometric mean of its token ratios, clipped as a whole.
import { clippedSurrogate } from "./clipped.ts"
import type { ObjectiveDefinition } from "./definition.ts"

export const gspo: ObjectiveDefinition = { kind: "gspo", level: "sequence", levelFixed: true, reduction: "sequence", clips: true, surrogate: clippedSurrogate }
