// The plugin: one environment, `arithmetic`.
import { defineEnvironment, definePlugin } from "@cohort/plugin"
import { arithmeticOptions } from "./options.ts"
import { arithmeticTasks } from "./taskset.ts"

/** Arithmetic prompts made by code, with the answer in the column `answer`. */
export const arithmetic = defineEnvironment({
  summary: "Arithmetic problems made by code, with held-out prompts that are never trained on",
  options: arithmeticOptions,
  setup: (options) => arithmeticTasks(options),
})

export default definePlugin({ name: "env-arithmetic", version: "0.1.0", apiVersion: 1, environments: { arithmetic } })
