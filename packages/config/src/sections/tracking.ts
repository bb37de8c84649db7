// Where metrics go.
import * as v from "valibot"
import { int } from "../field.ts"
import { trackersKey } from "./plugin-ref.ts"

export const trackingSection = v.pipe(
  v.strictObject({
    trackers: v.optional(trackersKey, ["jsonl"]),
    logEverySteps: v.optional(int(1, "Steps between two lines of metrics"), 1),
  }),
  v.description("Where metrics go"),
)
