// The settings themselves: sections and keys, without the rules that join them.
import * as v from "valibot"
import { int, text } from "./field.ts"
import { backendSection } from "./sections/backend.ts"
import { dataSection } from "./sections/data.ts"
import { evalSection } from "./sections/eval.ts"
import { defaultGuardrails, guardrailsKey } from "./sections/guardrails.ts"
import { inferenceSection } from "./sections/inference.ts"
import { modelSection } from "./sections/model.ts"
import { objectiveSection } from "./sections/objective.ts"
import { environmentSection, environmentsKey, pluginsKey, rewardsKey, toolsKey } from "./sections/plugin-ref.ts"
import { rolloutSection } from "./sections/rollout.ts"
import { stalenessSection } from "./sections/staleness.ts"
import { trackingSection } from "./sections/tracking.ts"
import { trainSection } from "./sections/train.ts"
import { transferSection } from "./sections/transfer.ts"

export const runShape = v.strictObject({
  seed: v.optional(int(0, "Seed of everything random in the run", 0xffff_ffff), 0),
  runDir: v.optional(text("Folder that holds the folders of runs"), "runs"),
  name: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/, "letters, digits, . _ -"),
      v.description("Label of the run, part of its folder's name: letters, digits, dot, dash, underscore"),
    ),
    "run",
  ),
  model: modelSection,
  data: dataSection,
  environment: v.exactOptional(environmentSection),
  environments: v.optional(environmentsKey, []),
  tools: v.optional(toolsKey, []),
  rewards: v.optional(rewardsKey, []),
  plugins: v.optional(pluginsKey, []),
  rollout: v.optional(rolloutSection, {}),
  staleness: v.optional(stalenessSection, {}),
  train: v.optional(trainSection, {}),
  objective: v.optional(objectiveSection, {}),
  inference: v.optional(inferenceSection, {}),
  transfer: v.optional(transferSection, {}),
  eval: v.optional(evalSection, {}),
  guardrails: v.optional(guardrailsKey, defaultGuardrails),
  tracking: v.optional(trackingSection, {}),
  backend: v.optional(backendSection, {}),
})

/** A parsed run before it is frozen. */
export type RunShape = v.InferOutput<typeof runShape>
