// The run that `cohort quickstart` starts; `examples/quickstart.toml` says the same as a user would write it.
import { existsSync } from "node:fs"
import { join } from "node:path"
import { defineConfig, type RunConfigInput } from "@cohort/config"
import { CohortError } from "@cohort/errors"

/**
 * The quickstart's settings.
 *
 * @param modelPath folder of the starting model
 */
export function quickstartConfig(modelPath: string): RunConfigInput {
  return defineConfig({
    name: "quickstart",
    model: { path: modelPath },
    data: { source: "env-arithmetic", options: { digits: 2, style: "bare" }, maxPromptTokens: 8 },
    rewards: [
      { use: "reward-math", options: { strict: true } },
      { use: "reward-format", weight: 0.1, options: { stop: true } },
    ],
    rollout: { groupSize: 8, maxCompletionTokens: 8 },
    staleness: { maxSteps: 4 },
    train: { steps: 60, completionsPerStep: 256, learningRate: 5e-5, beta2: 0.99, checkpointEverySteps: 20 },
    objective: { epsilonHigh: 0.28 },
    eval: { prompts: 512 },
  })
}

/** Where the starting model may lie, seen from this file: in a clone, and in an installed package. */
const modelFolders = ["../../../models/arithmetic-1m", "../models/arithmetic-1m"]

/**
 * The folder of the starting model.
 *
 * @throws CohortError `model_invalid` where it is missing
 */
export function quickstartModel(): string {
  const folders = modelFolders.map((folder) => join(import.meta.dir, folder))
  const found = folders.find((folder) => existsSync(join(folder, "config.json")))
  if (found !== undefined) return found
  throw new CohortError("model_invalid", `the quickstart's starting model is missing: there is no ${folders.join(" and no ")}`, { hint: "Clone the repository again, or make the model anew with `bun run make` in its folder models." })
}
