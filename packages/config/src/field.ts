// Builders for the kinds of setting there are, so that a section reads as a table: bounds, default, doc line.
import * as v from "valibot"
import { isJsonValue, type JsonValue } from "./json.ts"

/** Whole number in [min, max]. */
export const int = (min: number, doc: string, max: number = Number.MAX_SAFE_INTEGER) =>
  v.pipe(v.number(), v.safeInteger(), v.minValue(min), v.maxValue(max), v.description(doc))

/** Finite number in [min, max]. */
export const real = (min: number, doc: string, max: number = Number.MAX_VALUE) =>
  v.pipe(v.number(), v.finite(), v.minValue(min), v.maxValue(max), v.description(doc))

/** Finite number above `low`, up to `max`. */
export const above = (low: number, doc: string, max: number = Number.MAX_VALUE) =>
  v.pipe(v.number(), v.finite(), v.gtValue(low), v.maxValue(max), v.description(doc))

/** Finite number in [0, 1). */
export const share = (doc: string) => v.pipe(v.number(), v.finite(), v.minValue(0), v.ltValue(1), v.description(doc))

/** `"auto"` (chosen when the run starts) or a whole number of at least `min`. */
export const autoOr = (min: number, doc: string) =>
  v.pipe(v.union([v.literal("auto"), v.pipe(v.number(), v.safeInteger(), v.minValue(min))]), v.description(doc))

/** One of a few words. */
export const choice = <const Options extends readonly [string, ...string[]]>(options: Options, doc: string) =>
  v.pipe(v.picklist(options), v.description(doc))

/** Text that is not empty. */
export const text = (doc: string) => v.pipe(v.string(), v.nonEmpty(), v.description(doc))

export const flag = (doc: string) => v.pipe(v.boolean(), v.description(doc))

// Copied, so that freezing the config leaves the caller's objects alone.
const json = v.pipe(v.custom<JsonValue>(isJsonValue), v.transform((value) => structuredClone(value)))

/** Free-form table of JSON values, checked by whoever it is passed to. */
export const table = (doc: string) => v.pipe(v.record(v.string(), json), v.description(doc))
