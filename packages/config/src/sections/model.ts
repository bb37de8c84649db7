// The policy that is trained.
import * as v from "valibot"
import { choice, text } from "../field.ts"

export const modelSection = v.pipe(
  v.strictObject({
    path: text("Folder of the starting checkpoint in Hugging Face layout, or its name on the hub"),
    dtype: v.optional(choice(["f32", "bf16", "auto"], "Type the weights are held in; auto is that of the checkpoint"), "auto"),
  }),
  v.description("The policy that is trained"),
)
