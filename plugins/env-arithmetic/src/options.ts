// Options of the arithmetic task set.
import * as v from "valibot"

const count = (low: number, high: number) => v.pipe(v.number(), v.integer(), v.minValue(low), v.maxValue(high))

export const arithmeticOptions = v.strictObject({
  /** Digits of a term: 2 means 0 to 99. */
  digits: v.optional(count(1, 7), 2),
  operations: v.optional(
    v.pipe(
      v.array(v.picklist(["+", "-", "*"])),
      v.minLength(1),
      v.check((operations) => new Set(operations).size === operations.length, "an operation is named twice"),
    ),
    ["+"],
  ),
  maxTerms: v.optional(count(2, 5), 2),
  /** Rows kept out of training. */
  heldOut: v.optional(count(0, 1_000_000), 512),
  seed: v.optional(count(0, Number.MAX_SAFE_INTEGER), 0),
  /** "bare": `37+58=`. "chat": one user message, `What is 37+58?`. */
  style: v.optional(v.picklist(["bare", "chat"]), "bare"),
  /** In the bare style, terms are written with `digits` digits: `07+58=`. */
  zeroPad: v.optional(v.boolean(), true),
})

export type ArithmeticOptions = v.InferOutput<typeof arithmeticOptions>
