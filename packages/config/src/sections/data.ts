// Where prompts come from.
import * as v from "valibot"
import { flag, int, table, text } from "../field.ts"

export const dataSection = v.pipe(
  v.strictObject({
    source: text("A .jsonl or .parquet file, or a plugin that makes prompts, such as env-arithmetic"),
    options: v.optional(table("Options passed to the source, which checks them"), {}),
    promptColumn: v.optional(text("Column of the file that holds the prompt: text, or a list of chat messages"), "prompt"),
    shuffle: v.optional(flag("Shuffle the rows anew each epoch, from `seed`"), true),
    evalSource: v.exactOptional(text("Source of the evaluation prompts; named as `data.source` is")),
    maxPromptTokens: v.optional(int(1, "Longer prompts are dropped before anything is generated, and counted; evaluation prompts too"), 512),
  }),
  v.description("Where prompts come from"),
)
