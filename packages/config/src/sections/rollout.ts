// How completions are sampled.
import * as v from "valibot"
import { above, autoOr, choice, flag, int, real, table } from "../field.ts"

export const rolloutSection = v.pipe(
  v.strictObject({
    groupSize: v.optional(int(2, "Completions per prompt; each is judged against the others of its group"), 8),
    maxCompletionTokens: v.optional(int(1, "Tokens the model may write per turn"), 512),
    maxTurns: v.optional(int(1, "Turns of the model in one episode; the tool calls of the last are not run"), 16),
    forkThresholdTokens: v.optional(
      int(0, "When a template rewrites an earlier answer: trained tokens that may turn into context before a row of its own begins"),
      8,
    ),
    maxToolRounds: v.exactOptional(int(0, "Turns whose tool calls are run; without it only `rollout.maxTurns` bounds them")),
    maxEpisodeTokens: v.exactOptional(int(1, "Tokens the model may write over all turns of an episode")),
    turnTokens: v.optional(
      choice(["keep", "render"], "How the next turn's prompt is made: generated tokens stay as they are, or the chat template renders the whole conversation again"),
      "keep",
    ),
    dynamicSampling: v.optional(flag("Replace groups whose completions all score the same by others; DAPO's dynamic sampling"), false),
    maxReplacedGroups: v.optional(
      autoOr(1, "Groups that `rollout.dynamicSampling` may replace between two steps before the run stops; auto is ten times those that may be ahead of the trainer"),
      "auto",
    ),
    oversampling: v.optional(
      real(1, "Groups started per group that a step trains; the first to finish are trained, the rest is cut off and counted as `surplus`. Needs `staleness.policy` pace"),
      1,
    ),
    temperature: v.optional(real(0, "Sampling temperature; the trainer divides its logits by it too"), 1),
    topP: v.optional(above(0, "Smallest set of tokens whose probability reaches this; 1 is off", 1), 1),
    topK: v.optional(int(0, "Only the k likeliest tokens; 0 is off"), 0),
    minP: v.optional(real(0, "Least probability, as a share of the likeliest token's; 0 is off", 1), 0),
    repetitionPenalty: v.optional(above(0, "Divides the logits of tokens already present; 1 is off"), 1),
    maxInflightGroups: v.optional(autoOr(1, "Groups being generated at once; auto follows staleness and the servers' slots"), "auto"),
    queueGroups: v.optional(autoOr(1, "Finished groups that may wait for the trainer; generation then pauses. auto follows staleness"), "auto"),
    generateTimeoutMs: v.optional(int(1, "Time one turn may take, all retries included, milliseconds"), 600_000),
    toolTimeoutMs: v.optional(int(1, "Time one call of an environment's tool may take, milliseconds; those of `tools` have their own"), 60_000),
    environmentTimeoutMs: v.optional(int(1, "Time one call of an environment may take (reset, respond, score, close), milliseconds"), 60_000),
    heartbeatStaleMs: v.optional(int(1, "Silence after which the rollout worker counts as hung, milliseconds"), 300_000),
    thread: v.optional(flag("Run episodes, tools and rewards in a thread of their own: what blocks there does not hold up training. Plugins are loaded by name in it"), false),
    chatTemplateArgs: v.optional(table("Variables passed to the chat template, such as enable_thinking"), {}),
  }),
  v.description("How completions are sampled"),
)
