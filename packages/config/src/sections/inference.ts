// What generates.
import * as v from "valibot"
import { autoOr, choice, flag, int, text } from "../field.ts"

const url = v.pipe(v.string(), v.regex(/^https?:\/\/[^\s/]+\S*$/, "http or https address"), v.transform((url) => url.replace(/\/+$/, "")))

export const inferenceSection = v.pipe(
  v.strictObject({
    kind: v.optional(choice(["embedded", "vllm", "sglang"], "The engine that comes with Cohort, or servers that you started"), "embedded"),
    urls: v.optional(v.pipe(v.array(url), v.description("Addresses of the servers; none with embedded starts one")), []),
    slots: v.optional(autoOr(1, "Completions the embedded engine decodes at once; auto: 64, or 256 for models below 5 million parameters, and no more than a step trains"), "auto"),
    maxModelLength: v.optional(autoOr(2, "Longest sequence, prompt and completion, tokens; auto is what the server or the model says"), "auto"),
    colocated: v.optional(flag("Run the embedded engine on the trainer's own weights, in turns with training"), false),
    dtype: v.optional(choice(["f32", "bf16", "auto"], "Type the embedded engine computes in; auto is the fastest the machine has"), "auto"),
    startTimeoutMs: v.optional(int(1, "Time until every server answers as ready, milliseconds"), 240_000),
    requestTimeoutMs: v.optional(int(1, "Time one HTTP request may take, milliseconds"), 600_000),
    threads: v.optional(autoOr(1, "Threads of the embedded engine; auto is half the cores beside a trainer, all of them without"), "auto"),
    apiKeyEnv: v.exactOptional(text("Name of the environment variable that holds the servers' API key")),
  }),
  v.description("What generates"),
)
