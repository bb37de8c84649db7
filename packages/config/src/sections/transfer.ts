// How new weights reach the inference servers.
import * as v from "valibot"
import { choice, flag, int, text } from "../field.ts"

export const transferSection = v.pipe(
  v.strictObject({
    kind: v.optional(choice(["sharedMemory", "filesystem", "lora", "none"], "Through memory on one machine, through a folder, the adapter alone through a folder, or never"), "sharedMemory"),
    dir: v.exactOptional(text("Folder that trainer and servers both see; without it, one in the run's folder")),
    dtype: v.optional(choice(["auto", "f32", "bf16"], "Type of the matrices that are sent; auto is what the embedded engine computes in, and f32 for other servers"), "auto"),
    pauseMode: v.optional(choice(["keep", "wait", "abort"], "Requests in flight at a sync: go on afterwards, are waited for, or are cut off"), "keep"),
    clearCache: v.optional(flag("Servers forget cached prefixes, which the old weights made"), true),
    timeoutMs: v.optional(int(1, "Time one sync may take, milliseconds"), 1_800_000),
  }),
  v.description("How new weights reach the inference servers"),
)
