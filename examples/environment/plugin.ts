// Both as a plugin, for other projects to install.
import { defineEnvironment, definePlugin } from "@cohort/plugin"
import safe from "./safe.ts"
import { calculator } from "./tools.ts"

export default definePlugin({
  name: "safe",
  version: "0.1.0",
  apiVersion: 1,
  environments: { safe: defineEnvironment({ summary: "A safe that opens at one digit", setup: () => safe }) },
  tools: { calculator },
})
