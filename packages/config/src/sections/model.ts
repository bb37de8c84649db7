// The policy that is trained.
import * as v from "valibot"
import { above, flag, int, text } from "../field.ts"

const targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const

/** Off unless the table is there; an empty one takes the defaults. */
const loraSection = v.pipe(
  v.strictObject({
    rank: v.optional(int(1, "Rank of the adapter's matrices"), 16),
    alpha: v.optional(above(0, "The adapter's part is scaled by alpha / rank"), 32),
    targets: v.optional(v.pipe(v.array(v.picklist(targets)), v.nonEmpty(), v.description("Linear layers that have an adapter")), [...targets]),
    rankStabilized: v.optional(flag("Scale by alpha / sqrt(rank) instead"), false),
  }),
  v.description("Train a low-rank adapter beside frozen weights"),
)

export const modelSection = v.pipe(
  v.strictObject({
    path: text("Folder of the starting checkpoint in Hugging Face layout, or its name on the hub: organisation/name[@revision]"),
    lora: v.exactOptional(loraSection),
  }),
  v.description("The policy that is trained"),
)
