// How a config names plugins: rewards, tools, environments, trackers.
import * as v from "valibot"
import { choice, flag, int, real, table, text } from "../field.ts"

const use = text("Plugin name, package, or path of a module")
const options = v.optional(table("Options passed to the plugin, which checks them"), {})

const isolate = v.optional(flag("Run it in processes of its own, which are ended at the deadline and at the memory cap and started again"), false)
const isolateMemoryMb = v.optional(int(64, "Memory that one such process may take, MiB"), 512)

/** A plugin with its options. */
export const environmentSection = v.pipe(
  v.strictObject({ use, options }),
  v.description("Where episodes run, when the model answers in several turns or calls tools"),
)

export const environmentsKey = v.pipe(
  v.array(v.strictObject({ name: text("What a row's `environment` column says to live in it"), use, options })),
  v.description("Environments that rows choose among by their `environment` column; rows without it live in `environment`, if there is one"),
)

const toolEntries = v.strictObject({
  use,
  options,
  deadlineMs: v.optional(int(1, "Time one call may take, milliseconds; the model reads that it was too slow"), 60_000),
  isolate,
  isolateMemoryMb,
})

/** `"./tools.ts"` is short for `{ use: "./tools.ts" }`. */
export const toolsKey = v.pipe(
  v.array(v.union([v.pipe(v.string(), v.nonEmpty(), v.transform((use) => v.parse(toolEntries, { use }))), toolEntries])),
  v.description("Tools of every episode, besides those of its environment; a name alone takes the defaults"),
)

const rewardEntries = v.strictObject({
  use: text("Plugin name, package, or path of a module"),
  weight: v.optional(real(-Number.MAX_VALUE, "Factor of this reward in the sum"), 1),
  options,
  deadlineMs: v.optional(int(1, "Time one call may take, milliseconds"), 30_000),
  retries: v.optional(int(0, "Further tries after a failure that may pass"), 2),
  onFailure: v.optional(
    choice(["drop", "abort"], "After the last try: leave the completion out of its group, or stop the run; never a reward of 0"),
    "drop",
  ),
  isolate,
  isolateMemoryMb,
})

/** `"math"` is short for `{ use: "math" }`. */
export const rewardsKey = v.pipe(
  v.array(v.union([v.pipe(v.string(), v.nonEmpty(), v.transform((use) => v.parse(rewardEntries, { use }))), rewardEntries])),
  v.description("Rewards added up per completion; a name alone takes the defaults"),
)

const trackerEntries = v.strictObject({ use, options })

export const trackersKey = v.pipe(
  v.array(v.union([v.pipe(v.string(), v.nonEmpty(), v.transform((use) => v.parse(trackerEntries, { use }))), trackerEntries])),
  v.description("Where metrics go; a name alone takes the defaults"),
)

export const pluginsKey = v.pipe(
  v.array(v.pipe(v.string(), v.nonEmpty())),
  v.description("Modules to load plugins from: package names, or paths"),
)
